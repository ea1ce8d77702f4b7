import type { Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib';
import type { AnswerBody, AnswerSource } from './answer-body.ts';
import type { ProviderFailures } from './provider-failures.ts';

const decoders: ReadonlyMap<string, () => Transform> = new Map<string, () => Transform>([
  ['gzip', createGunzip],
  ['x-gzip', createGunzip],
  ['deflate', createInflate],
  ['br', createBrotliDecompress],
  ['zstd', createZstdDecompress],
]);

export const isCompressed = (coding: string | undefined): coding is string =>
  coding !== undefined && coding !== '' && coding.toLowerCase() !== 'identity';

/** Decompresses a body. The gateway asks for uncompressed answers, but some providers compress them anyway. */
export class Decompressor implements AnswerSource {
  readonly #source: AnswerSource;
  readonly #decoder: Transform;
  #body: AnswerBody | undefined;
  #isSourcePaused = false;

  /** @returns undefined for an unknown coding */
  static create(coding: string, source: AnswerSource): Decompressor | undefined {
    const createDecoder = decoders.get(coding.trim().toLowerCase());
    return createDecoder && new Decompressor(createDecoder(), source);
  }

  private constructor(decoder: Transform, source: AnswerSource) {
    this.#decoder = decoder;
    this.#source = source;
    decoder.on('drain', () => {
      if (this.#isSourcePaused) source.resume();
      this.#isSourcePaused = false;
    });
  }

  pipeTo(body: AnswerBody, failures: ProviderFailures): void {
    this.#body = body;
    this.#decoder
      .on('data', (bytes: Buffer) => body.push(bytes))
      .on('end', () => body.end())
      .on('error', (error) => body.fail(failures.unreadable('it cannot be decompressed', error)));
  }

  push(chunk: Buffer): void {
    if (this.#decoder.destroyed || this.#decoder.write(chunk)) return;
    this.#isSourcePaused = true;
    this.#source.pause();
  }

  end(): void {
    this.#decoder.end();
  }

  fail(failure: unknown): void {
    this.#decoder.destroy();
    this.#body?.fail(failure);
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
