# Stands where the bindings' own script stands, and sets the variable by which one sees that it was sourced.
CCL_ROOT="$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")"
export CCL_ROOT
