// A pasted line of a log is searched as words: no sign in it is an operator, such as the `-` of `--option`.
document.addEventListener("input", (event) => {
  const query = event.target;
  if (query.matches("[data-md-component=search-query]")) {
    const words = query.value.replace(/[-+:~^*"]/g, " ");
    if (words !== query.value) query.value = words;
  }
}, true);
