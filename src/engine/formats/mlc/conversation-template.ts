import { isRecord, type Json } from '../../../util/json.ts';

/** Converts MLC's `conv_template`, which is plain text around each message, to a chat template. */

const placeholders = {
  user: '{user_message}',
  assistant: '{assistant_message}',
  tool: '{tool_message}',
} as const;
type Role = keyof typeof placeholders;

/**
 * Returns a Jinja template; undefined when `conversation` is only a name or has an unknown structure.
 * @param bosId id of the token that the template calls `bos_token`
 */
export const createConversationTemplate = (conversation: unknown, bosId: unknown): string | undefined => {
  if (!isRecord(conversation)) return undefined;
  const { roles, seps, role_templates: roleTemplates } = conversation;
  if (!isRecord(roles) || typeof roles['user'] !== 'string' || typeof roles['assistant'] !== 'string')
    return undefined;
  const [separator = '', afterAnswer = separator] = Array.isArray(seps) ? seps.map(String) : [];
  const definedRoles = (Object.keys(placeholders) as Role[]).filter(
    (role) => typeof roles[role] === 'string',
  );
  const branches = definedRoles.map((role, index) => {
    const template = isRecord(roleTemplates) ? roleTemplates[role] : undefined;
    const [before, after] = splitAtPlaceholder(
      typeof template === 'string' ? template : placeholders[role],
      placeholders[role],
    );
    const end = role === 'assistant' ? afterAnswer : separator;
    const name = `${String(roles[role])}${readString(conversation, 'role_content_sep')}`;
    return (
      `{%- ${index === 0 ? 'if' : 'elif'} message['role'] == ${quoteJinjaString(role)} -%}` +
      `{%- if named or not loop.first -%}{{ ${quoteJinjaString(name)} }}{%- endif -%}` +
      `{{ ${quoteJinjaString(before)} + message['content'] + ${quoteJinjaString(after + end)} }}`
    );
  });
  const unknown =
    "{%- else -%}{{ raise_exception('this model knows no role ' + message['role']) }}{%- endif -%}";
  const prompt = `${roles['assistant']}${readString(conversation, 'role_empty_sep')}`;
  const prefix = conversation['system_prefix_token_ids'];
  const bos = Array.isArray(prefix) && prefix[0] === bosId ? '{{ bos_token }}' : '';
  return (
    bos +
    createSystemPart(conversation) +
    `{%- for message in rest -%}${branches.join('')}${unknown}{%- endfor -%}` +
    `{%- if add_generation_prompt -%}{{ ${quoteJinjaString(prompt)} }}{%- endif -%}`
  );
};

/** The system message, or the default one, and whether the first message after it has a role name. */
const createSystemPart = (conversation: Json): string => {
  const [before, after] = splitAtPlaceholder(readString(conversation, 'system_template'), '{system_message}');
  const defaultMessage = readString(conversation, 'system_message');
  const namesFirstSpeaker =
    conversation['add_role_after_system_message'] === false ? "(before + system + after) == ''" : 'true';
  return (
    "{%- if messages and messages[0]['role'] == 'system' -%}" +
    "{%- set system = messages[0]['content'] -%}{%- set rest = messages[1:] -%}" +
    `{%- else -%}{%- set system = ${quoteJinjaString(defaultMessage)} -%}{%- set rest = messages -%}{%- endif -%}` +
    `{%- set before = ${quoteJinjaString(before)} -%}{%- set after = ${quoteJinjaString(after)} -%}` +
    `{%- set named = ${namesFirstSpeaker} -%}` +
    '{{ before + system + after }}'
  );
};

const readString = (conversation: Json, key: string): string => {
  const value = conversation[key];
  return typeof value === 'string' ? value : '';
};

/** Splits a template at its placeholder; a template without placeholder comes before the message. */
const splitAtPlaceholder = (template: string, placeholder: string): readonly [string, string] => {
  const at = template.indexOf(placeholder);
  return at === -1 ? [template, ''] : [template.slice(0, at), template.slice(at + placeholder.length)];
};

const quoteJinjaString = (text: string): string =>
  `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'").replaceAll('\n', '\\n').replaceAll('\t', '\\t').replaceAll('\r', '\\r')}'`;
