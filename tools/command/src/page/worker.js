// The module in a thread of its own: a request is text, the answer is text.

let exports;

async function begin(base64) {
  const digits = atob(base64), bytes = new Uint8Array(digits.length);
  for (let n = 0; n < digits.length; n++) bytes[n] = digits.charCodeAt(n);
  exports = (await WebAssembly.instantiate(bytes, {})).instance.exports;
}

function answer(request) {
  const bytes = new TextEncoder().encode(request);
  // A call may move the memory, so its buffer is asked for afterwards.
  const at = exports.request(bytes.length);
  new Uint8Array(exports.memory.buffer, at, bytes.length).set(bytes);
  const length = exports.run(), start = exports.answer();
  return new TextDecoder().decode(new Uint8Array(exports.memory.buffer, start, length));
}

let ready;

onmessage = async ({ data }) => {
  try {
    if (data.module) ready = begin(data.module);
    await ready;
    if (data.request !== undefined) postMessage({ id: data.id, answer: answer(data.request) });
  } catch (error) {
    postMessage({ id: data.id, failure: String(error) });
  }
};
