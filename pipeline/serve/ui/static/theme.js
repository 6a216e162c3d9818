// Before anything is drawn: the colours that this browser has chosen. No module, as those come after the first drawing.
{
  const chosen = localStorage.getItem("graphmill-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
