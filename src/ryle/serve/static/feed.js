// What the server sends: parts of looks, in binary messages (ryle.serve.pictures says how they are laid out).

const TYPES = {
  "<f8": Float64Array, "<f4": Float32Array, "<i2": Int16Array, "|u1": Uint8Array,
};
const VERSION = 1;
const UNKNOWN = -32768; // of arrays of int16

/** Read a message: its header, with each array by its name as {shape, data}. */
export function decode(buffer) {
  const words = new DataView(buffer);
  const size = words.getUint32(0, true);
  if (words.getUint32(4, true) !== VERSION) throw new Error("the server is of another version: load the page again");
  const found = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, size)));
  let at = 8 + size;
  for (const [name, type, shape] of found.arrays) {
    const count = shape.reduce((a, b) => a * b, 1);
    const Type = TYPES[type];
    found[name] = { shape, data: new Type(buffer, at, count) };
    at += Math.ceil((count * Type.BYTES_PER_ELEMENT) / 8) * 8;
  }
  return found;
}

/** Give a number of an array of hundredths; NaN if it is not known. */
export function hundredth(value) {
  return value === UNKNOWN ? NaN : value / 100;
}

/** The newest of each part, from a connection that is made again whenever it ends. */
export class Feed {
  /** Say whom to call: `arrived(part)` for each message, `changed()` when the connection comes or goes. */
  constructor(arrived, changed) {
    this.arrived = arrived;
    this.changed = changed;
    this.parts = new Map();
    this.open = false;
    this.problem = "";
    this.last = 0; // when something came, ms of this page
    this.wait = 250;
    this.names = [];
    this.connect();
  }

  connect() {
    const secure = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${secure}://${location.host}/api/live`);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      this.open = true;
      this.problem = "";
      this.wait = 250;
      this.say();
      this.changed();
    };
    socket.onmessage = (event) => {
      this.last = performance.now();
      try {
        const part = decode(event.data);
        this.parts.set(part.part, part);
        this.arrived(part);
      } catch (error) {
        this.problem = String(error.message || error);
        this.changed();
      }
    };
    socket.onclose = (event) => {
      this.open = false;
      if (event.reason) this.problem = event.reason;
      this.changed();
      setTimeout(() => this.connect(), this.wait);
      this.wait = Math.min(5000, this.wait * 2);
    };
    this.socket = socket;
  }

  /** Ask for parts, and for no others; what nobody wants any more is forgotten. */
  want(names) {
    if (names.join() === this.names.join()) return;
    this.names = names;
    for (const name of [...this.parts.keys()]) if (name !== "sight" && !names.includes(name)) this.parts.delete(name);
    this.say();
  }

  say() {
    if (this.open && this.names.length) this.socket.send(JSON.stringify({ want: this.names }));
  }
}
