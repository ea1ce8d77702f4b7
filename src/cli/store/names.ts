/** Names that requests have for models: Ollama's, a hub's, and ours. */
import { isGgufModel, splitNameOf } from '../../engine/index.ts';
import { HttpError } from '../../http/error.ts';
import { hubName } from '../../planes/turn/identity.ts';
import { hubPrefix, parseReference, type Reference } from '../../pull/reference.ts';
import { isPortableName } from '../../words/portable-name.ts';

/** `:latest` is the tag that Ollama's clients add. */
const latest = /:latest$/;

/** A repository of a hub, and a file or quantisation in it; undefined for every other name. */
export function hubReference(name: string): Reference | undefined {
  const found = hubName.exec(name);
  if (!found) return undefined;
  const own = found[0].toLowerCase() === hubPrefix;
  return parseReference((own ? name : name.replace(latest, '')).slice(found[0].length));
}

/**
 * The names under which a model may be stored that a request calls so: a tag is a file in a folder. The last is the one
 * that a new model gets: `OWNER/NAME` alone lies at `OWNER/NAME/latest`, so that lists can tell it from `NAME:TAG`.
 */
export function storedNames(name: string): string[] {
  const plain = name.replace(latest, '');
  const tag = plain.lastIndexOf(':');
  if (tag !== -1) return [plain, `${plain.slice(0, tag)}/${plain.slice(tag + 1)}`];
  return plain.includes('/') ? [plain, `${plain}/latest`] : [plain];
}

const part = /^(?!.*\.\.)[a-z0-9_][a-z0-9._-]{0,79}$/i;

/**
 * Where a model of this name lies below the folder of models, with slashes and without an ending.
 * @throws HttpError for what is no name
 */
export function placeOfName(name: string): string {
  const parts = (storedNames(name).at(-1) ?? '').split('/');
  const file = `${parts.at(-1)}.gguf`;
  const fits =
    parts.length <= 3 &&
    parts.every((one) => part.test(one) && isPortableName(one)) &&
    isGgufModel(file) &&
    splitNameOf(file) === undefined &&
    !/\.gguf$/i.test(parts.at(-1) ?? '');
  if (fits) return parts.join('/');
  throw new HttpError(
    400,
    'invalid_model_name',
    `'${name.slice(0, 200)}' is no name for a model: expected NAME, OWNER/NAME or either with :TAG, of letters, digits, '.', '_' and '-', none of it a name that Windows reserves (CON, AUX, NUL, COM1 ...).`,
    { param: 'model' },
  );
}
