import { isRecord, type Json } from '../../util/json.ts';
import { isLongNumber } from '../../wires/core/json.ts';
import type { HookText } from './types.ts';

/** A text of a body, and how to replace it. */
interface FoundText extends HookText {
  readonly path: string;
  readonly replace: (text: string) => void;
  /** Set where it is the name of a member of the object at this path. */
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
  ...[
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
  ],
  ...['anyOf', 'oneOf', 'allOf', 'not', '$ref', '$defs', 'definitions', 'additionalProperties', 'nullable'],
  ...['minimum', 'maximum', 'minLength', 'maxLength', 'minItems', 'maxItems', 'pattern', '$schema'],
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
 * know is included, so that nothing is hidden from hooks. A name of a member is a text with the path of its object, after
 * those of its value; names are to be replaced in this order.
 * @param isSigned whether the provider checks signed reasoning; where it does not, that is a text like others
 */
export function findTexts(body: Json, { isSigned = true } = {}): FoundText[] {
  const found: FoundText[] = [];
  const visit = (
    holder: Record<string | number, unknown>,
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
      const replace = (text: string) => {
        holder[name] = text;
      };
      found.push({ path, ...(role === undefined ? {} : { role }), text: value, replace });
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
        const replace = (text: string) => renameMember(value, member, text);
        found.push({
          path,
          ...(inner === undefined ? {} : { role: inner }),
          text: member,
          isName: true,
          replace,
        });
      }
    }
  };
  for (const member of Object.keys(body))
    visit(body, member, {
      path: member,
      role: topLevelRoles[member],
      isFree: freeForm.has(member),
    });
  return found;
}

/** Roles of texts outside messages. */
const topLevelRoles: Readonly<Record<string, string>> = {
  system: 'system',
  instructions: 'system',
  prompt: 'user',
  suffix: 'user',
  input: 'user',
};

/** Renames a member, in its place. Where the object has the new name already, the name gets a number: no value is lost. */
function renameMember(holder: Record<string, unknown>, name: string, next: string): void {
  if (name === next) return;
  const members = Object.entries(holder);
  const taken = new Set(Object.keys(holder));
  let free = next;
  for (let count = 2; taken.has(free); count += 1) free = `${next} ${count}`;
  for (const [member] of members) delete holder[member];
  for (const [member, value] of members)
    Object.defineProperty(holder, member === name ? free : member, {
      value,
      writable: true,
      enumerable: true,
      configurable: true,
    });
}

/** Whether a text is bytes of a file: base64, or a data URL with it. */
export const isBase64 = (text: string): boolean => /^(?:data:[^,]{0,200};base64,)?[\w+/=\r\n-]*$/.test(text);

function isSkipped(
  holder: Record<string | number, unknown>,
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
