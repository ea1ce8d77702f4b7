/** Bounded buffer for the output of a command: keeps its beginning and its end. */
export class Printed {
  readonly #keep: number;
  readonly #first: Buffer[] = [];
  #firstBytes = 0;
  #last: Buffer[] = [];
  #lastBytes = 0;
  /** Total bytes of the output. */
  bytes = 0;

  /** @param partBytes bytes to keep of each part */
  constructor(keep: number) {
    this.#keep = keep;
  }

  add(bytes: Buffer): void {
    this.bytes += bytes.length;
    const room = this.#keep - this.#firstBytes;
    if (room > 0) {
      // Copied, because a subarray would keep the whole buffer alive.
      this.#first.push(Buffer.from(bytes.subarray(0, room)));
      this.#firstBytes += Math.min(room, bytes.length);
    }
    if (bytes.length <= room) return;
    this.#last.push(Buffer.from(bytes.subarray(Math.max(room, bytes.length - this.#keep))));
    this.#lastBytes += this.#last.at(-1)?.length ?? 0;
    if (this.#lastBytes > 2 * this.#keep) {
      const all = Buffer.concat(this.#last);
      this.#last = [Buffer.from(all.subarray(all.length - this.#keep))];
      this.#lastBytes = this.#keep;
    }
  }

  get truncated(): boolean {
    return this.bytes > 2 * this.#keep;
  }

  text(): string {
    const last = Buffer.concat(this.#last);
    if (!this.truncated) return clean(Buffer.concat([...this.#first, last]));
    const left = this.bytes - 2 * this.#keep;
    const end = last.subarray(last.length - this.#keep);
    return `${clean(Buffer.concat(this.#first))}\n[${left} bytes left out]\n${clean(end)}`;
  }
}

/** Removes terminal escape sequences. */
const clean = (bytes: Buffer): string =>
  bytes
    .toString('utf8')
    // oxlint-disable-next-line no-control-regex -- escape sequences of terminals
    .replaceAll(/\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-_])/g, '')
    .replaceAll(/\r\n/g, '\n')
    .replaceAll('\0', '');
