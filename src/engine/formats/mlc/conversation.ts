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
export const conversationTemplate = (conversation: unknown, bosId: unknown): string | undefined => {
  if (!isRecord(conversation)) return undefined;
  const { roles, seps, role_templates: around } = conversation;
  if (!isRecord(roles) || typeof roles['user'] !== 'string' || typeof roles['assistant'] !== 'string')
    return undefined;
  const [separator = '', afterAnswer = separator] = Array.isArray(seps) ? seps.map(String) : [];
  const speakers = (Object.keys(placeholders) as Role[]).filter((role) => typeof roles[role] === 'string');
  const branches = speakers.map((role, index) => {
    const form = isRecord(around) ? around[role] : undefined;
    const [before, after] = cut(typeof form === 'string' ? form : placeholders[role], placeholders[role]);
    const end = role === 'assistant' ? afterAnswer : separator;
    const name = `${String(roles[role])}${textOf(conversation, 'role_content_sep')}`;
    return (
      `{%- ${index === 0 ? 'if' : 'elif'} message['role'] == ${quoted(role)} -%}` +
      `{%- if named or not loop.first -%}{{ ${quoted(name)} }}{%- endif -%}` +
      `{{ ${quoted(before)} + message['content'] + ${quoted(after + end)} }}`
    );
  });
  const unknown =
    "{%- else -%}{{ raise_exception('this model knows no role ' + message['role']) }}{%- endif -%}";
  const prompt = `${roles['assistant']}${textOf(conversation, 'role_empty_sep')}`;
  const prefix = conversation['system_prefix_token_ids'];
  const bos = Array.isArray(prefix) && prefix[0] === bosId ? '{{ bos_token }}' : '';
  return (
    bos +
    systemPart(conversation) +
    `{%- for message in rest -%}${branches.join('')}${unknown}{%- endfor -%}` +
    `{%- if add_generation_prompt -%}{{ ${quoted(prompt)} }}{%- endif -%}`
  );
};

/** The system message, or the default one, and whether the first message after it has a role name. */
const systemPart = (conversation: Json): string => {
  const [before, after] = cut(textOf(conversation, 'system_template'), '{system_message}');
  const own = textOf(conversation, 'system_message');
  const named =
    conversation['add_role_after_system_message'] === false ? "(before + system + after) == ''" : 'true';
  return (
    "{%- if messages and messages[0]['role'] == 'system' -%}" +
    "{%- set system = messages[0]['content'] -%}{%- set rest = messages[1:] -%}" +
    `{%- else -%}{%- set system = ${quoted(own)} -%}{%- set rest = messages -%}{%- endif -%}` +
    `{%- set before = ${quoted(before)} -%}{%- set after = ${quoted(after)} -%}` +
    `{%- set named = ${named} -%}` +
    '{{ before + system + after }}'
  );
};

const textOf = (conversation: Json, key: string): string => {
  const value = conversation[key];
  return typeof value === 'string' ? value : '';
};

/** Splits a template at its placeholder; a template without placeholder comes before the message. */
const cut = (form: string, placeholder: string): readonly [string, string] => {
  const at = form.indexOf(placeholder);
  return at === -1 ? [form, ''] : [form.slice(0, at), form.slice(at + placeholder.length)];
};

const quoted = (text: string): string =>
  `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'").replaceAll('\n', '\\n').replaceAll('\t', '\\t').replaceAll('\r', '\\r')}'`;
