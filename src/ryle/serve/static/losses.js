// What was lost of each input, look by look, in memory that does not grow.

export const STAGES = ["ring", "F", "X", "file"];
const MOST = 600; // looks: five minutes of two a second

/** Write a share that was there in a byte, as ryle.serve.pictures.loss_codes does. */
export function lossCode(present) {
  if (present === null || present === undefined || Number.isNaN(present)) return 0;
  if (present >= 1) return 1;
  return Math.max(2, Math.min(255, Math.round(2 + 50.6 * (5 + Math.log10(1 - present)))));
}

/** Give the share that was lost back; NaN if it is not known. */
export function lost(code) {
  return code === 0 ? NaN : code === 1 ? 0 : 10 ** ((code - 2) / 50.6 - 5);
}

/** A ring of looks, one for each stage; column `at` is the oldest once it is full. */
export class Losses {
  constructor() {
    this.reset(0);
  }

  reset(inputs) {
    this.inputs = inputs;
    this.codes = STAGES.map(() => new Uint8Array(MOST * inputs)); // time by input
    this.times = new Float64Array(MOST);
    this.length = this.at = 0;
    this.newest = -Infinity;
  }

  /** Take what the server has seen before this page was opened. */
  begin({ times, codes }) {
    const [, inputs, looks] = codes.shape;
    this.reset(inputs);
    for (let t = Math.max(0, looks - MOST); t < looks; t++) {
      this.put(times.data[t], (s, n) => codes.data[(s * inputs + n) * looks + t]);
    }
  }

  /** Take a look. */
  add(sight) {
    if (!sight.inputs.length || sight.time === this.newest) return;
    if (sight.inputs.length !== this.inputs) this.reset(sight.inputs.length);
    this.put(sight.time, (s, n) => lossCode(sight.inputs[n].present[STAGES[s]]));
  }

  put(time, code) {
    for (let s = 0; s < STAGES.length; s++) {
      const row = this.codes[s];
      for (let n = 0; n < this.inputs; n++) row[this.at * this.inputs + n] = code(s, n);
    }
    this.times[this.at] = this.newest = time;
    this.at = (this.at + 1) % MOST;
    this.length = Math.min(MOST, this.length + 1);
  }

  /** Give where the look number t lies, the oldest being 0. */
  column(t) {
    return (this.at - this.length + t + MOST) % MOST;
  }
}
