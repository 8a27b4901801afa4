"use strict";
for (const button of document.querySelectorAll("button[data-copies]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copies);
    const message = document.getElementById(button.getAttribute("aria-describedby"));
    try {
      await navigator.clipboard.writeText(source.textContent);
      message.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(source);
      message.textContent = "selected: copy it with the keyboard";
    }
  });
}
