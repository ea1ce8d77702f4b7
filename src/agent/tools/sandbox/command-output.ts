import type { SavedOutput } from './saved-outputs.ts';

/** Bounded buffer for the output of a command: keeps its beginning and its end. */
export class CommandOutput {
  readonly #partBytes: number;
  readonly #save: () => SavedOutput | undefined;
  #saved: SavedOutput | undefined;
  readonly #first: Buffer[] = [];
  #firstBytes = 0;
  #last: Buffer[] = [];
  #lastBytes = 0;
  /** Total bytes of the output. */
  bytes = 0;

  /**
   * @param partBytes bytes to keep of each part
   * @param save called once when the output is longer than both parts; receives all of it
   */
  constructor(partBytes: number, save: () => SavedOutput | undefined = () => undefined) {
    this.#partBytes = partBytes;
    this.#save = save;
  }

  add(bytes: Buffer): void {
    const wasTruncated = this.truncated;
    this.bytes += bytes.length;
    if (this.truncated) {
      if (!wasTruncated) {
        this.#saved = this.#save();
        // Up to here, both parts together are all of the output.
        for (const before of [...this.#first, ...this.#last]) this.#saved?.add(before);
      }
      this.#saved?.add(bytes);
    }
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

  /** Closes what was saved, when nobody will read the text. */
  async close(): Promise<void> {
    await this.#saved?.end();
  }

  async text(): Promise<string> {
    const last = Buffer.concat(this.#last);
    if (!this.truncated) return textOf(Buffer.concat([...this.#first, last]));
    const omittedBytes = this.bytes - 2 * this.#partBytes;
    const lastPart = last.subarray(last.length - this.#partBytes);
    const isComplete = await this.#saved?.end();
    const where = this.#saved
      ? `; fs_read of ${this.#saved.path} has ${isComplete === true ? 'all' : 'the first'} lines`
      : '';
    return `${textOf(Buffer.concat(this.#first))}\n[${omittedBytes} bytes left out${where}]\n${textOf(lastPart)}`;
  }
}

const textOf = (bytes: Buffer): string => stripEscapes(bytes.toString('utf8'));

/** Removes terminal escape sequences. */
export const stripEscapes = (text: string): string =>
  text
    // oxlint-disable-next-line no-control-regex -- escape sequences of terminals
    .replaceAll(/\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-_])/g, '')
    .replaceAll(/\r\n/g, '\n')
    .replaceAll('\0', '');
