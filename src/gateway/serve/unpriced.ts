import { isRecord, type Json } from '../../util/json.ts';
import type { Candidate } from '../catalog/types.ts';
import { Violations } from '../../wires/core/violations.ts';
import type { ClientWireName } from '../../wires/core/wire.ts';

type IsHarmless = (value: unknown) => boolean;

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

const isOff: IsHarmless = (value) => value === false || (Array.isArray(value) && value.length === 0);
const isOne: IsHarmless = (value) => value === 1 || value === false;
const isText: IsHarmless = (value) => listOf(value).every((each) => each === 'text') && Array.isArray(value);

const searching = 'the provider bills searches in addition to tokens, without a limit; leave it out';
const elsewhere =
  'it could route the request to a model with another price; name fallbacks in the header x-svc-fallback-models';
const spoken = 'audio has no price here; leave it out';
const longer = 'it sets the output length in addition to max_tokens; use max_tokens';
const several = 'it produces more answers than n; use n';

type Rules = Readonly<Record<string, readonly [why: string, isHarmless?: IsHarmless]>>;

const everywhere: Rules = {
  models: [elsewhere, isOff],
  route: [elsewhere],
  provider: [elsewhere],
  fallbacks: [elsewhere, isOff],
  plugins: [searching, isOff],
  mcp_servers: [searching, isOff],
  web_search_options: [searching],
  search_parameters: [searching],
  enable_search: [searching, isOff],
  data_sources: [searching, isOff],
  documents: ['its tokens are not part of the cost calculation; put it into a message', isOff],
  chat_template: ['the prompt length of a custom template has no known limit; leave it out'],
  modalities: [spoken, isText],
  audio: [spoken],
  prediction: ['rejected prediction tokens are billed beyond max_tokens; leave it out'],
  use_beam_search: [several, isOne],
  num_beams: [several, isOne],
  n_predict: [longer],
  num_predict: [longer],
  max_new_tokens: [longer],
  max_length: [longer],
};

const rulesOf = (rules: Rules) => new Map(Object.entries(rules));

const ofWire: Readonly<Record<ClientWireName, ReturnType<typeof rulesOf>>> = {
  chat: rulesOf({ ...everywhere, best_of: [several, isOne], max_output_tokens: [longer] }),
  completions: rulesOf({ ...everywhere, max_output_tokens: [longer], max_completion_tokens: [longer] }),
  responses: rulesOf({
    ...everywhere,
    context_management: [
      "the provider's summaries are billed in addition to the answer; shorten the conversation yourself",
      isOff,
    ],
    max_tokens: ['on this wire it is called max_output_tokens'],
    max_completion_tokens: ['on this wire it is called max_output_tokens'],
  }),
  // The schema of this wire already rejects unpriced members, for all credentials.
  messages: rulesOf({}),
};

/** Types of tools that the caller runs, so the provider bills nothing for them. */
const runByCaller: ReadonlySet<unknown> = new Set([
  'function',
  'custom',
  'namespace',
  'tool_search',
  'local_shell',
  'apply_patch',
  'computer',
  'computer_use_preview',
]);

/**
 * Rejects features that cannot be used with the operator's provider credential: those without a price in the rate card,
 * because no ceiling would hold, and files and voices stored in the operator's provider account, where one caller could
 * read another's. A caller with a credential of its own may use all of them.
 * @throws WireError 400 that lists every violation
 */
export function refuseUnpriced(wire: ClientWireName, { credential }: Candidate, body: Json): void {
  if (credential.kind === 'byok') return;
  const faults = new Violations();
  const rules = ofWire[wire];
  // Most requests have none of these members, so their few members are looked up in the rules, not the reverse.
  if (Object.keys(body).some((name) => rules.has(name)))
    for (const [name, [why, isHarmless]] of rules) {
      const value = body[name];
      if (value !== undefined && value !== null && isHarmless?.(value) !== true) faults.refuse(name, why);
    }
  if (wire !== 'messages')
    listOf(body['tools']).forEach((tool, index) => {
      if (!isRecord(tool) || isRunByCaller(tool)) return;
      faults.refuse(
        `tools.${index}.type`,
        'it runs at the provider and is billed in addition to tokens; use functions that you run yourself',
      );
    });
  listOf(body['messages']).forEach((message, index) => {
    if (!isRecord(message)) return;
    if (isRecord(message['audio'])) faults.refuse(`messages.${index}.audio`, spoken);
    if (Array.isArray(message['content'])) parts(message['content'], `messages.${index}.content`, faults);
  });
  faults.throwAny();
}

const isRunByCaller = ({ type, environment }: Json): boolean =>
  type === undefined ||
  runByCaller.has(type) ||
  (type === 'shell' && isRecord(environment) && environment['type'] === 'local');

const stored = "files in this gateway's provider account cannot be used; send the file itself";

function parts(content: unknown, path: string, faults: Violations): void {
  listOf(content).forEach((part, index) => {
    if (!isRecord(part)) return;
    const at = `${path}.${index}`;
    const { type, file, source, content: inner } = part;
    if (type === 'input_audio') faults.refuse(at, spoken);
    if (type === 'container_upload') faults.refuse(at, stored);
    if (isRecord(file) && file['file_id'] !== undefined && file['file_id'] !== null)
      faults.refuse(`${at}.file.file_id`, stored);
    if (isRecord(source)) {
      if (source['type'] === 'file') faults.refuse(`${at}.source`, stored);
      parts(source['content'], `${at}.source.content`, faults);
    }
    parts(inner, `${at}.content`, faults);
  });
}
