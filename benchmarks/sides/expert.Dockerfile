# syntax is that of BuildKit's built-in frontend: no network is needed.
# What a careful engineer writes for the same content: the same base and the same wheels, mounted instead of copied,
# no cache left behind, what changes rarely in a layer below what changes often. COMPILE is --no-compile or --compile.
ARG BASE
FROM ${BASE}
ARG COMPILE=--no-compile
RUN --mount=type=bind,source=stable,target=/wheels --mount=type=bind,source=pip,target=/pip \
    python3 /pip/pip.whl/pip install --no-cache-dir ${COMPILE} --no-index --no-deps --ignore-installed \
    --root-user-action=ignore /wheels/*.whl
RUN --mount=type=bind,source=changing,target=/wheels \
    python3 -m pip install --no-cache-dir ${COMPILE} --no-index --no-deps --root-user-action=ignore /wheels/*.whl
RUN useradd --uid 1000 --gid 0 --create-home multinode \
    && install -d -o 1000 -g 0 -m 775 /workspace /workspace/output /workspace/.cache /workspace/.cache/huggingface
COPY own/ /
ENV ACCELERATE_USE_CPU=1 HF_HOME=/workspace/.cache/huggingface LANG=C.UTF-8
USER 1000:0
WORKDIR /workspace
ENTRYPOINT ["tini", "-g", "--", "python3", "-I", "-S", "/opt/multinode"]
