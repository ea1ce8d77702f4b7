/** Model names in requests: Ollama names, hub references and names of this host. */
import { isGgufModelPath, parseSplitName } from '../../engine/index.ts';
import { HttpError } from '../../http/error.ts';
import { hubNamePattern } from '../../planes/turn/identity.ts';
import { hubPrefix, parseReference, type Reference } from '../../pull/reference.ts';
import { isPortableName } from '../../words/portable-name.ts';

/** Ollama clients add the tag `:latest`. */
const latestTag = /:latest$/;

/** Parses a hub repository with an optional file or quantization; undefined for every other name. */
export function hubReference(name: string): Reference | undefined {
  const found = hubNamePattern.exec(name);
  if (!found) return undefined;
  const isOwnPrefix = found[0].toLowerCase() === hubPrefix;
  return parseReference((isOwnPrefix ? name : name.replace(latestTag, '')).slice(found[0].length));
}

/**
 * The stored names that a name in a request can mean. A tag becomes a file in a folder. A new model gets the last one:
 * `OWNER/NAME` without a tag is stored as `OWNER/NAME/latest`, so that it differs from `NAME:TAG`.
 */
export function storedNamesFor(name: string): string[] {
  const plain = name.replace(latestTag, '');
  const tag = plain.lastIndexOf(':');
  if (tag !== -1) return [plain, `${plain.slice(0, tag)}/${plain.slice(tag + 1)}`];
  return plain.includes('/') ? [plain, `${plain}/latest`] : [plain];
}

const segmentPattern = /^(?!.*\.\.)[a-z0-9_][a-z0-9._-]{0,79}$/i;

/**
 * Path of a model with this name relative to the models folder, with slashes and without a file extension.
 * @throws HttpError if the name is invalid
 */
export function pathForName(name: string): string {
  const parts = (storedNamesFor(name).at(-1) ?? '').split('/');
  const file = `${parts.at(-1)}.gguf`;
  const isValid =
    parts.length <= 3 &&
    parts.every((one) => segmentPattern.test(one) && isPortableName(one)) &&
    isGgufModelPath(file) &&
    parseSplitName(file) === undefined &&
    !/\.gguf$/i.test(parts.at(-1) ?? '');
  if (isValid) return parts.join('/');
  throw new HttpError(
    400,
    'invalid_model_name',
    `'${name.slice(0, 200)}' is not a valid model name: expected NAME or OWNER/NAME, optionally with :TAG, of letters, digits, '.', '_' and '-', and no name that Windows reserves (CON, AUX, NUL, COM1 ...).`,
    { param: 'model' },
  );
}
