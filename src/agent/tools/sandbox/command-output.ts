/** Bounded buffer for the output of a command: keeps its beginning and its end. */
export class CommandOutput {
  readonly #partBytes: number;
  readonly #first: Buffer[] = [];
  #firstBytes = 0;
  #last: Buffer[] = [];
  #lastBytes = 0;
  /** Total bytes of the output. */
  bytes = 0;

  /** @param partBytes bytes to keep of each part */
  constructor(partBytes: number) {
    this.#partBytes = partBytes;
  }

  add(bytes: Buffer): void {
    this.bytes += bytes.length;
    const bytesLeft = this.#partBytes - this.#firstBytes;
    if (bytesLeft > 0) {
      // Copied, because a subarray would keep the whole buffer alive.
      this.#first.push(Buffer.from(bytes.subarray(0, bytesLeft)));
      this.#firstBytes += Math.min(bytesLeft, bytes.length);
    }
    if (bytes.length <= bytesLeft) return;
    this.#last.push(Buffer.from(bytes.subarray(Math.max(bytesLeft, bytes.length - this.#partBytes))));
    this.#lastBytes += this.#last.at(-1)?.length ?? 0;
    if (this.#lastBytes > 2 * this.#partBytes) {
      const all = Buffer.concat(this.#last);
      this.#last = [Buffer.from(all.subarray(all.length - this.#partBytes))];
      this.#lastBytes = this.#partBytes;
    }
  }

  get truncated(): boolean {
    return this.bytes > 2 * this.#partBytes;
  }

  text(): string {
    const last = Buffer.concat(this.#last);
    if (!this.truncated) return stripEscapes(Buffer.concat([...this.#first, last]));
    const omittedBytes = this.bytes - 2 * this.#partBytes;
    const lastPart = last.subarray(last.length - this.#partBytes);
    return `${stripEscapes(Buffer.concat(this.#first))}\n[${omittedBytes} bytes left out]\n${stripEscapes(lastPart)}`;
  }
}

/** Removes terminal escape sequences. */
const stripEscapes = (bytes: Buffer): string =>
  bytes
    .toString('utf8')
    // oxlint-disable-next-line no-control-regex -- escape sequences of terminals
    .replaceAll(/\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-_])/g, '')
    .replaceAll(/\r\n/g, '\n')
    .replaceAll('\0', '');
