import { isRecord, type Json } from '../../util/json.ts';
import { createEditedBody } from '../core/json-edit.ts';
import { levelsOf } from '../core/effort.ts';
import type { ClientRequest, UpstreamBody, UpstreamOptions } from '../core/wire.ts';
import { parseOrThrow } from '../core/violations.ts';
import {
  alwaysReportsUsage,
  resolveEffort,
  maxTokensMember,
  seedMember,
  tierEdit,
  acceptsBothLimitMembers,
} from './dialect.ts';
import { historyEdits } from './history.ts';
import { effortSchema, readReasoning } from './request-schema.ts';

/** Returns the caller's text with only the edits that the provider requires. */
export function editRequest(request: ClientRequest, options: UpstreamOptions): UpstreamBody {
  const { text, body } = request;
  const edits = {
    ...commonEdits(body, options),
    ...limitEdits(body, options),
    ...effortEdits(body, options),
    ...historyEdits(text, body, options),
    ...mistralEdits(body, options),
  };
  return createEditedBody('/chat/completions', request, edits);
}

/** Edits that chat and text completions share. */
export function commonEdits(body: Json, { model, stream }: UpstreamOptions): Json {
  return {
    ...(body['model'] === model.upstream ? {} : { model: model.upstream }),
    ...((body['stream'] === true) === stream ? {} : { stream }),
    ...(stream ? usageEdits(body['stream_options'], alwaysReportsUsage(model)) : {}),
    ...tierEdit(body, model),
  };
}

/** Usage is always requested, because without it the cost of a stream is unknown. */
function usageEdits(streamOptions: unknown, isAlwaysReported: boolean): Json {
  if (isAlwaysReported) {
    // The provider always reports usage and refuses requests for it.
    if (streamOptions === undefined) return {};
    const { include_usage: _, ...rest } = isRecord(streamOptions) ? streamOptions : {};
    return { stream_options: Object.keys(rest).length > 0 ? rest : undefined };
  }
  if (isRecord(streamOptions) && streamOptions['include_usage'] === true) return {};
  return { stream_options: { ...(isRecord(streamOptions) ? streamOptions : {}), include_usage: true } };
}

/** Sets a single token limit, in the member that the model accepts, even where the caller set none. */
function limitEdits(body: Json, { model, maxTokens }: UpstreamOptions): Json {
  const names = ['max_completion_tokens', 'max_tokens'] as const;
  const presentLimits = names.filter((name) => body[name] !== undefined && body[name] !== null);
  const [only] = presentLimits;
  const limitName =
    presentLimits.length === 1 && only && acceptsBothLimitMembers(model) && !isRenamed(only, model)
      ? only
      : maxTokensMember(model);
  return Object.fromEntries(
    names.flatMap((name): [string, unknown][] => {
      if (name !== limitName) return name in body ? [[name, undefined]] : [];
      return body[name] === maxTokens ? [] : [[name, maxTokens]];
    }),
  );
}

/** OpenAI's reasoning models accept the newer name only. */
const isRenamed = (name: string, model: UpstreamOptions['model']): boolean =>
  model.provider.wire !== 'lathe' &&
  maxTokensMember(model) === 'max_completion_tokens' &&
  name === 'max_tokens';

/**
 * Maps the effort to a level of the model. `reasoning` is a member of the gateway, which other hosts of this project
 * also accept.
 */
function effortEdits(body: Json, { model, maxTokens }: UpstreamOptions): Json {
  const { reasoning: reasoningMember, reasoning_effort: effortMember } = body;
  if (reasoningMember === undefined && effortMember === undefined) return {};
  const requested = readReasoning(parseOrThrow(effortSchema, body));
  if (model.provider.wire === 'lathe' && levelsOf(model).length === 0) return {};
  const removal = reasoningMember === undefined ? {} : { reasoning: undefined };
  const level = requested && resolveEffort(requested, model, maxTokens);
  return level === effortMember
    ? removal
    : {
        ...removal,
        ...(level === undefined && !('reasoning_effort' in body) ? {} : { reasoning_effort: level }),
      };
}

/** Hints to OpenAI without effect on the answer. Mistral's service answers 422 to unknown members. */
const ignoredHints = [
  'user',
  'store',
  'verbosity',
  'service_tier',
  'safety_identifier',
  'prompt_cache_key',
  'prompt_cache_retention',
];

function mistralEdits(body: Json, { model }: UpstreamOptions): Json {
  if (seedMember(model) === 'seed') return {};
  return {
    ...Object.fromEntries(ignoredHints.filter((name) => name in body).map((name) => [name, undefined])),
    ...('seed' in body ? { seed: undefined, random_seed: body['seed'] ?? undefined } : {}),
  };
}
