import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, it } from 'vitest';

const folder = fileURLToPath(new URL('../../../shared/', import.meta.url));

/** Absolute path of a file of the embedded model, which every checkout has. */
export function modelsPath(name: string): string {
  return fileURLToPath(new URL(`../../models/${name}`, import.meta.url));
}

/** Absolute path of a file of the model that tests run on, which stays as it is when the embedded one is made again. */
export function fixturePath(name: string): string {
  return fileURLToPath(new URL(`../fixtures/lathe-tiny/${name}`, import.meta.url));
}

export const fixtureModel = fixturePath('lathe-tiny-q8_0.gguf');

/** Absolute path of a test-data file beside the repository (`../shared/<path>`), or undefined where it is absent. */
export function sharedPath(path: string): string | undefined {
  const absolute = folder + path;
  return existsSync(absolute) ? absolute : undefined;
}

/**
 * A describe block that needs files of `../shared`; without them it is skipped and says what is missing.
 * @param body gets the absolute paths, in the order asked for
 */
export function describeShared(title: string, paths: readonly string[], body: (...found: string[]) => void) {
  const missing = paths.filter((path) => sharedPath(path) === undefined);
  if (missing.length === 0) {
    describe(title, () => body(...paths.map((path) => folder + path)));
  } else {
    // The body is not even collected: it may read its files at once.
    describe.skip(title, () => it(`skipped: there is no ../shared/${missing.join(', ')}`, () => {}));
  }
}
