import { isRecord, type Json } from '../../util/json.ts';
import { isLongNumber } from '../../wires/core/json.ts';
import type { HookText } from './types.ts';

type Holder = Record<string | number, unknown>;

/** A text of a body, and where it is. */
export interface FoundText extends HookText {
  readonly path: string;
  /** The list or object that has it. */
  readonly holder: Holder;
  readonly member: string | number;
  /** Set where the text is the name of the member, and not its value; its path is that of the object. */
  readonly isName?: true;
}

/** Members of the wires' own objects that hold no text for a model. */
const structural: ReadonlySet<string> = new Set([
  'model',
  'type',
  'role',
  'object',
  'status',
  'media_type',
  'mime_type',
  'detail',
  'effort',
  'tool_choice',
  'reasoning_effort',
  'service_tier',
  'truncation',
  'verbosity',
  'encoding_format',
  // Only the provider that signed or encrypted these can read them, and it refuses changed ones.
  'signature',
  'encrypted_content',
]);

/** Members of JSON schemas: their names say nothing, but those of all other members of the caller's JSON may. */
const schemaWords: ReadonlySet<string> = new Set([
  'type',
  'properties',
  'required',
  'description',
  'title',
  'default',
  'enum',
  'const',
  'items',
  'format',
  'anyOf',
  'oneOf',
  'allOf',
  'not',
  '$ref',
  '$defs',
  'definitions',
  'additionalProperties',
  'nullable',
  'minimum',
  'maximum',
  'minLength',
  'maxLength',
  'minItems',
  'maxItems',
  'pattern',
  '$schema',
]);

/** Members whose values are JSON of the caller: every text in them counts, and every name of a member. */
const freeForm: ReadonlySet<string> = new Set([
  'arguments',
  'parameters',
  'input_schema',
  'schema',
  'properties',
]);

/** Ids as providers and clients make them. One that is something else may be a text. */
const idPattern = /^[\w.:/+=-]{0,128}$/;
const ids: ReadonlySet<string> = new Set(['id', 'call_id', 'tool_call_id', 'tool_use_id', 'item_id']);

/**
 * Finds every text of a request body on any wire that a model may read, in the order of the body: all texts but those of
 * structural members, images, files, and signed reasoning, which is the provider's own. A member that the gateway does not
 * know is included, so that nothing is hidden from hooks. A name of a member is a text with the path of its object.
 * @param isSigned whether the provider checks signed reasoning; where it does not, that is a text like others
 */
export function findTexts(body: Json, { isSigned = true } = {}): FoundText[] {
  const found: FoundText[] = [];
  const visit = (
    holder: Holder,
    name: string | number,
    {
      path,
      role,
      isFree,
    }: { readonly path: string; readonly role: string | undefined; readonly isFree: boolean },
  ): void => {
    const value = holder[name];
    if (typeof value === 'string') {
      if (!isFree && isSkipped(holder, name, { value, isSigned })) return;
      found.push({ path, ...(role === undefined ? {} : { role }), text: value, holder, member: name });
    } else if (Array.isArray(value)) {
      value.forEach((_one, index) =>
        visit(value as unknown as Record<number, unknown>, index, { path: `${path}.${index}`, role, isFree }),
      );
    } else if (isRecord(value) && !isLongNumber(value)) {
      const inner = !isFree && typeof value['role'] === 'string' ? value['role'] : role;
      for (const member of Object.keys(value)) {
        visit(value, member, {
          path: `${path}.${member}`,
          role: inner,
          isFree: isFree || freeForm.has(member) || (member === 'input' && isRecord(value[member])),
        });
        if (!isFree || schemaWords.has(member)) continue;
        const at = inner === undefined ? {} : { role: inner };
        found.push({ path, ...at, text: member, holder: value, member, isName: true });
      }
    }
  };
  for (const member of Object.keys(body))
    visit(body, member, {
      path: member,
      role: topLevelRoles.get(member),
      isFree: freeForm.has(member),
    });
  return found;
}

/** Roles of texts outside messages. */
const topLevelRoles: ReadonlyMap<string, string> = new Map([
  ['system', 'system'],
  ['instructions', 'system'],
  ['prompt', 'user'],
  ['suffix', 'user'],
  ['input', 'user'],
]);

/** Replaces texts of a body by their index in what `findTexts` returned. */
export function replaceTexts(found: readonly FoundText[], texts: ReadonlyMap<number, string>): void {
  const renamed = new Map<Holder, Map<string | number, string>>();
  for (const [index, text] of texts) {
    const { holder, member, isName } = found[index] ?? {};
    if (!holder || member === undefined) continue;
    if (isName) renamed.set(holder, (renamed.get(holder) ?? new Map()).set(member, text));
    else holder[member] = text;
  }
  // After the values, which are found by the former names.
  for (const [holder, names] of renamed) renameMembers(holder, names);
}

/** Renames members, in their places. Where a name is taken, the next one gets a number: no value is lost. */
function renameMembers(holder: Holder, names: ReadonlyMap<string | number, string>): void {
  const members = Object.entries(holder);
  const taken = new Set(members.map(([name]) => name).filter((name) => !names.has(name)));
  const counts = new Map<string, number>();
  for (const [name] of members) Reflect.deleteProperty(holder, name);
  for (const [name, value] of members) {
    const wanted = names.get(name);
    let free = wanted ?? name;
    if (wanted !== undefined) {
      let count = counts.get(wanted) ?? 1;
      while (taken.has(free)) free = `${wanted} ${(count += 1)}`;
      counts.set(wanted, count);
      taken.add(free);
    }
    Object.defineProperty(holder, free, { value, writable: true, enumerable: true, configurable: true });
  }
}

/** Whether a text is bytes of a file: base64, or a data URL with it. */
export const isBase64 = (text: string): boolean => /^(?:data:[^,]{0,200};base64,)?[\w+/=\r\n-]*$/.test(text);

function isSkipped(
  holder: Holder,
  name: string | number,
  { value, isSigned }: { readonly value: string; readonly isSigned: boolean },
): boolean {
  if (typeof name === 'number') return false;
  if (ids.has(name)) return idPattern.test(value);
  if (structural.has(name)) return true;
  const { type } = holder;
  if (name === 'file_data') return isBase64(value);
  if (name === 'data')
    return type === 'redacted_thinking' || ((type === 'base64' || 'format' in holder) && isBase64(value));
  if (name === 'url' || name === 'image_url') return value.startsWith('data:') && isBase64(value);
  const { signature } = holder;
  return (
    isSigned &&
    name === 'thinking' &&
    type === 'thinking' &&
    typeof signature === 'string' &&
    signature !== ''
  );
}

/** Whether a prompt or an input is given as token ids, which no hook can read. */
export function hasTokenIds(value: unknown): boolean {
  return typeof value === 'number' || (Array.isArray(value) && value.some(hasTokenIds));
}
