import { isRecord, type Json } from '../../util/json.ts';
import { freeRateCard } from '../catalog/rate-card.ts';
import type { Candidate, Model } from '../catalog/types.ts';
import { isWebSearch } from '../../wires/messages/unpriced.ts';
import { hostedToolOf } from '../../wires/responses/hosted-tools.ts';
import { WireError } from '../../wires/core/error.ts';
import { Violations } from '../../wires/core/violations.ts';
import type { ClientWireName } from '../../wires/core/wire.ts';

/** @param model that would answer, with its prices */
type IsHarmless = (value: unknown, model: Model) => boolean;

const toList = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

const isOff: IsHarmless = (value) => value === false || (Array.isArray(value) && value.length === 0);
const isOne: IsHarmless = (value) => value === 1 || value === false;
/** Text, and what the model has a price for. */
const isPricedModality: IsHarmless = (value, { price, provider }) =>
  Array.isArray(value) &&
  value.every(
    (each) =>
      each === 'text' ||
      (provider.wire === 'openai-chat' &&
        ((each === 'audio' && price.audioOutput !== undefined) ||
          (each === 'image' && price.imageOutput !== undefined))),
  );
/** A voice of the provider's own; another one belongs to an account. */
const isPricedVoice: IsHarmless = (value, { price, provider }) =>
  isRecord(value) &&
  typeof value['voice'] === 'string' &&
  provider.wire === 'openai-chat' &&
  price.audioOutput !== undefined;
const isPricedSearch: IsHarmless = (value, { price, provider }) =>
  isRecord(value) &&
  (provider.wire === 'openai-chat' || provider.wire === 'google') &&
  price.hostedTools?.perCall.web_search !== undefined;

const searchReason = 'the provider bills searches in addition to tokens, without a limit; leave it out';
const routingReason =
  'it could route the request to a model with another price; name fallbacks in the header x-svc-fallback-models';
const audioReason = 'audio has no price here; leave it out';
const modalityReason = 'only text, and audio and images with prices of their own, can be generated here';
const voiceReason =
  'audio has a price at models with out_audio_usd_per_mtok only, and voices of an account are not shared; name a voice of the provider';
const webSearchReason = 'this model has no price for web searches here; leave it out';
const lengthReason = 'it sets the output length in addition to max_tokens; use max_tokens';
const answerCountReason = 'it produces more answers than n; use n';

type Rules = Readonly<Record<string, readonly [why: string, isHarmless?: IsHarmless]>>;

const commonRules: Rules = {
  models: [routingReason, isOff],
  route: [routingReason],
  provider: [routingReason],
  fallbacks: [routingReason, isOff],
  plugins: [searchReason, isOff],
  mcp_servers: [searchReason, isOff],
  web_search_options: [webSearchReason, isPricedSearch],
  search_parameters: [searchReason],
  enable_search: [searchReason, isOff],
  data_sources: [searchReason, isOff],
  documents: ['its tokens are not part of the cost calculation; put it into a message', isOff],
  chat_template: ['the prompt length of a custom template has no known limit; leave it out'],
  modalities: [modalityReason, isPricedModality],
  audio: [voiceReason, isPricedVoice],
  prediction: ['rejected prediction tokens are billed beyond max_tokens; leave it out'],
  use_beam_search: [answerCountReason, isOne],
  num_beams: [answerCountReason, isOne],
  n_predict: [lengthReason],
  num_predict: [lengthReason],
  max_new_tokens: [lengthReason],
  max_length: [lengthReason],
};

const toRuleMap = (rules: Rules) => new Map(Object.entries(rules));

const rulesByWire: Readonly<Record<ClientWireName, ReturnType<typeof toRuleMap>>> = {
  chat: toRuleMap({ ...commonRules, best_of: [answerCountReason, isOne], max_output_tokens: [lengthReason] }),
  completions: toRuleMap({
    ...commonRules,
    max_output_tokens: [lengthReason],
    max_completion_tokens: [lengthReason],
  }),
  responses: toRuleMap({
    ...commonRules,
    context_management: [
      "the provider's summaries are billed in addition to the answer; shorten the conversation yourself",
      isOff,
    ],
    max_tokens: ['on this wire it is called max_output_tokens'],
    max_completion_tokens: ['on this wire it is called max_output_tokens'],
  }),
  // The schema of this wire already rejects unpriced members, for all credentials.
  messages: toRuleMap({}),
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
export function rejectUnpricedFeatures(
  wire: ClientWireName,
  { credential, model }: Candidate,
  body: Json,
): void {
  if (credential.kind === 'byok') return;
  const faults = new Violations();
  const rules = rulesByWire[wire];
  // Most requests have none of these members, so their few members are looked up in the rules, not the reverse.
  if (Object.keys(body).some((name) => rules.has(name)))
    for (const [name, [reason, isHarmless]] of rules) {
      const value = body[name];
      if (value !== undefined && value !== null && isHarmless?.(value, model) !== true)
        faults.addUnsupported(name, reason);
    }
  toList(body['tools']).forEach((tool, index) => {
    if (isRecord(tool)) checkTool(wire, model, { tool, path: `tools.${index}` }, faults);
  });
  toList(body['messages']).forEach((message, index) => {
    if (!isRecord(message)) return;
    if (isRecord(message['audio'])) faults.addUnsupported(`messages.${index}.audio`, audioReason);
    if (Array.isArray(message['content']))
      checkContentParts(message['content'], `messages.${index}.content`, faults, model);
  });
  faults.throwIfAny();
}

function checkTool(
  wire: ClientWireName,
  model: Model,
  { tool, path }: { readonly tool: Json; readonly path: string },
  faults: Violations,
): void {
  // The schema of the messages wire has rejected all tools of the provider but the web search.
  if (wire === 'messages' ? !isWebSearch(tool) : isRunByCaller(tool)) return;
  const hosted = wire === 'messages' ? 'web_search' : hostedToolOf(tool);
  const isSameWire =
    wire === 'messages'
      ? model.provider.wire === 'anthropic-messages'
      : wire === 'responses' && model.provider.wire === 'openai-responses';
  if (hosted && isSameWire && model.price.hostedTools?.perCall[hosted] !== undefined) {
    if (hosted === 'code_interpreter') checkContainer(tool['container'], `${path}.container`, faults);
    return;
  }
  faults.addUnsupported(
    `${path}.type`,
    'it runs at the provider and is billed in addition to tokens, and this model has no price for it here; use functions that you run yourself',
  );
}

/** A container of one request: others belong to the provider account, and larger ones have other prices. */
function checkContainer(container: unknown, path: string, faults: Violations): void {
  if (!isRecord(container) || container['type'] !== 'auto') {
    faults.addUnsupported(path, "only containers of one request can be used: {type: 'auto'}");
    return;
  }
  if (toList(container['file_ids']).length > 0)
    faults.addUnsupported(`${path}.file_ids`, "files in this gateway's provider account cannot be used");
  const { memory_limit: memory } = container;
  if (memory !== undefined && memory !== null && memory !== '1g')
    faults.addUnsupported(`${path}.memory_limit`, "only '1g' is priced here; leave it out");
}

/** Whether the provider does more for the request than write an answer: it runs tools, or reads what it stored. */
export function usesUnpricedFeatures(wire: ClientWireName, { model }: Candidate, body: Json): boolean {
  try {
    // A model without any price may do nothing else.
    const unpriced = { ...model, ...freeRateCard };
    rejectUnpricedFeatures(wire, { model: unpriced, credential: { kind: 'house', apiKey: undefined } }, body);
    return false;
  } catch (error) {
    if (error instanceof WireError) return true;
    throw error;
  }
}

const isRunByCaller = ({ type, environment }: Json): boolean =>
  type === undefined ||
  runByCaller.has(type) ||
  (type === 'shell' && isRecord(environment) && environment['type'] === 'local');

const providerFileReason = "files in this gateway's provider account cannot be used; send the file itself";

function checkContentParts(content: unknown, path: string, faults: Violations, model: Model): void {
  toList(content).forEach((part, index) => {
    if (!isRecord(part)) return;
    const at = `${path}.${index}`;
    const { type, file, source, content: inner } = part;
    if (
      type === 'input_audio' &&
      (model.price.audioInput === undefined || model.provider.wire !== 'openai-chat')
    )
      faults.addUnsupported(at, audioReason);
    if (type === 'container_upload') faults.addUnsupported(at, providerFileReason);
    if (isRecord(file) && file['file_id'] !== undefined && file['file_id'] !== null)
      faults.addUnsupported(`${at}.file.file_id`, providerFileReason);
    if (isRecord(source)) {
      if (source['type'] === 'file') faults.addUnsupported(`${at}.source`, providerFileReason);
      checkContentParts(source['content'], `${at}.source.content`, faults, model);
    }
    checkContentParts(inner, `${at}.content`, faults, model);
  });
}
