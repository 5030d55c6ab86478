// A page of `picajit explore`: the data is in the document.
showPage(JSON.parse(byId("data").textContent), false);
