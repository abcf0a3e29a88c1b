"""Commands of the image that train nothing: the doctor, servers, and where the ranks of a training are."""
