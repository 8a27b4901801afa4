
{
  const form = document.getElementById("filter");
  const words = document.getElementById("filter-words");
  const count = document.getElementById("filter-count");
  const boxes = [...form.querySelectorAll("input[type=checkbox]")];
  const filter = () => {
    const asked = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const states = new Set(boxes.filter(box => box.checked && box.value !== "new").map(box => box.value));
    const onlyNew = boxes.some(box => box.checked && box.value === "new");
    let seen = 0;
    for (const one of document.querySelectorAll("[data-state]")) {
      const text = one.dataset.text.toLowerCase();
      const fits = asked.every(word => text.includes(word)) && states.has(one.dataset.state) && (!onlyNew || "new" in one.dataset);
      one.hidden = !fits;
      seen += fits && one.tagName === "LI";
    }
    for (const row of document.querySelectorAll(".grid-of-cells tbody tr")) {
      row.hidden = !row.querySelector("[data-state]:not([hidden])");
    }
    count.textContent = `${seen} shown`;
  };
  form.hidden = false;
  form.addEventListener("input", filter);
  form.addEventListener("submit", event => event.preventDefault());
}
