import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, it } from 'vitest';

const folder = fileURLToPath(new URL('../../../shared/', import.meta.url));

/** Absolute path of a file of the embedded model, which is part of every checkout. */
export function modelsPath(name: string): string {
  return fileURLToPath(new URL(`../../models/${name}`, import.meta.url));
}

/** Absolute path of a file of the model for tests, which stays the same when the embedded model is regenerated. */
export function fixturePath(name: string): string {
  return fileURLToPath(new URL(`../fixtures/lathe-tiny/${name}`, import.meta.url));
}

export const fixtureModel = fixturePath('lathe-tiny-q8_0.gguf');

/** Absolute path of a test-data file next to the repository (`../shared/<path>`), or undefined when it is missing. */
export function sharedPath(path: string): string | undefined {
  const absolute = folder + path;
  return existsSync(absolute) ? absolute : undefined;
}

/**
 * A describe block that needs files of `../shared`; without them it is skipped and reports what is missing.
 * @param body gets the absolute paths, in the requested order
 */
export function describeShared(title: string, paths: readonly string[], body: (...found: string[]) => void) {
  const missing = paths.filter((path) => sharedPath(path) === undefined);
  if (missing.length === 0) {
    describe(title, () => body(...paths.map((path) => folder + path)));
  } else {
    // The body is not even collected, because it may read its files at once.
    describe.skip(title, () => it(`skipped: there is no ../shared/${missing.join(', ')}`, () => {}));
  }
}
