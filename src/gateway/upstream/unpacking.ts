import type { Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib';
import type { AnswerBody, BodySource } from './answer-body.ts';
import type { ProviderFaults } from './faults.ts';

const decoders: ReadonlyMap<string, () => Transform> = new Map<string, () => Transform>([
  ['gzip', createGunzip],
  ['x-gzip', createGunzip],
  ['deflate', createInflate],
  ['br', createBrotliDecompress],
  ['zstd', createZstdDecompress],
]);

export const isPacked = (coding: string | undefined): coding is string =>
  coding !== undefined && coding !== '' && coding.toLowerCase() !== 'identity';

/** Decompresses a body. The gateway asks for uncompressed answers, but some providers compress them anyway. */
export class Unpacking implements BodySource {
  readonly #source: BodySource;
  readonly #decoder: Transform;
  #body: AnswerBody | undefined;
  #held = false;

  /** @returns undefined for an unknown coding */
  static of(coding: string, source: BodySource): Unpacking | undefined {
    const make = decoders.get(coding.trim().toLowerCase());
    return make && new Unpacking(make(), source);
  }

  private constructor(decoder: Transform, source: BodySource) {
    this.#decoder = decoder;
    this.#source = source;
    decoder.on('drain', () => {
      if (this.#held) source.resume();
      this.#held = false;
    });
  }

  into(body: AnswerBody, faults: ProviderFaults): void {
    this.#body = body;
    this.#decoder
      .on('data', (bytes: Buffer) => body.push(bytes))
      .on('end', () => body.end())
      .on('error', (error) => body.break(faults.nonsense('it cannot be decompressed', error)));
  }

  push(chunk: Buffer): void {
    if (this.#decoder.destroyed || this.#decoder.write(chunk)) return;
    this.#held = true;
    this.#source.pause();
  }

  end(): void {
    this.#decoder.end();
  }

  break(failure: unknown): void {
    this.#decoder.destroy();
    this.#body?.break(failure);
  }

  pause(): void {
    this.#decoder.pause();
  }

  resume(): void {
    this.#decoder.resume();
  }

  abort(): void {
    this.#decoder.destroy();
    this.#source.abort();
  }
}
