import { isRecord, type Json } from '../../util/json.ts';
import { isLongNumber } from '../../wires/core/json.ts';
import type { HookText } from './types.ts';

/** A text of a body, and how to replace it. */
interface FoundText extends HookText {
  readonly path: string;
  readonly replace: (text: string) => void;
}

/** Members of the wires' own objects that hold no text for a model. */
const structural: ReadonlySet<string> = new Set([
  'model',
  'type',
  'role',
  'id',
  'call_id',
  'tool_call_id',
  'tool_use_id',
  'item_id',
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

/** Members whose values are JSON of the caller: every text in them counts. */
const freeForm: ReadonlySet<string> = new Set([
  'arguments',
  'parameters',
  'input_schema',
  'schema',
  'properties',
]);

/**
 * Finds every text of a request body on any wire that a model may read, in the order of the body: all texts but those of
 * structural members, images, files, and signed reasoning, which is the provider's own. A member that the gateway does not
 * know is included, so that nothing is hidden from hooks.
 */
export function findTexts(body: Json): FoundText[] {
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
      if (!isFree && isSkipped(holder, name, value)) return;
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
      for (const member of Object.keys(value))
        visit(value, member, {
          path: `${path}.${member}`,
          role: inner,
          isFree: isFree || freeForm.has(member) || (member === 'input' && isRecord(value[member])),
        });
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

function isSkipped(holder: Record<string | number, unknown>, name: string | number, value: string): boolean {
  if (typeof name === 'number') return false;
  if (structural.has(name)) return true;
  const { type } = holder;
  if (name === 'file_data') return true;
  if (name === 'data') return type === 'base64' || type === 'redacted_thinking' || 'format' in holder;
  if (name === 'url' || name === 'image_url') return value.startsWith('data:');
  return name === 'thinking' && type === 'thinking' && typeof holder['signature'] === 'string';
}

/** Whether a prompt or an input is given as token ids, which no hook can read. */
export function hasTokenIds(value: unknown): boolean {
  return typeof value === 'number' || (Array.isArray(value) && value.some(hasTokenIds));
}
