# The shape that guides show: a base with Python, and all packages by one command, as pip does it when nobody asks for more.
ARG BASE
FROM ${BASE}
WORKDIR /workspace
RUN --mount=type=bind,target=/context \
    python3 /context/pip/pip.whl/pip install --no-cache-dir --no-index --no-deps --ignore-installed \
    --root-user-action=ignore /context/stable/*.whl /context/changing/*.whl
