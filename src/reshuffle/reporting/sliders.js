"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const choices = read("choices");

  // The recommendation: look up the card of this eps and batch size, and show its words.
  const eps = document.getElementById("eps"), batch = document.getElementById("batch"), reset = document.getElementById("reset");
  const show = () => {
    const accuracy = choices[eps.value], card = accuracy.cards[batch.value];
    for (const place of document.querySelectorAll("[data-show]")) place.textContent = card[place.dataset.show];
    document.getElementById("eps-value").textContent = card.eps;
    document.getElementById("batch-value").textContent = card.batch;
    eps.setAttribute("aria-valuetext", card.eps);
    batch.setAttribute("aria-valuetext", card.batch);
    reset.disabled = Number(batch.value) === accuracy.recommended;
  };
  const recommend = () => {
    batch.value = choices[eps.value].recommended;
    show();
  };
  eps.addEventListener("input", recommend);
  batch.addEventListener("input", show);
  reset.addEventListener("click", recommend);
  show();
})();
