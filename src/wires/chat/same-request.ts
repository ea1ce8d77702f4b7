import { isRecord, type Json } from '../../util/json.ts';
import { editedBody } from '../core/json-edit.ts';
import { levelsOf } from '../core/effort.ts';
import type { ClientRequest, UpstreamBody, UpstreamOptions } from '../core/wire.ts';
import { checked } from '../core/violations.ts';
import {
  countsUnasked,
  effortFor,
  isUsualTier,
  limitMember,
  seedMember,
  takesBothLimits,
} from './dialect.ts';
import { historyEdits } from './history.ts';
import { askedEffort, reasoningOf } from './request-schema.ts';

/** The caller's text, byte by byte but for what the provider must be told otherwise. */
export function sameRequest(request: ClientRequest, options: UpstreamOptions): UpstreamBody {
  const { text, body } = request;
  const edits = {
    ...commonEdits(body, options),
    ...limitEdits(body, options),
    ...effortEdits(body, options),
    ...historyEdits(text, body, options),
    ...mistralEdits(body, options),
  };
  return editedBody('/chat/completions', request, edits);
}

/** The same on both of OpenAI's older wires. */
export function commonEdits(body: Json, { model, stream }: UpstreamOptions): Json {
  return {
    ...(body['model'] === model.upstream ? {} : { model: model.upstream }),
    ...((body['stream'] === true) === stream ? {} : { stream }),
    ...(stream ? usageEdits(body['stream_options'], countsUnasked(model)) : {}),
    // The rate card has one price for a model, and other tiers have others.
    ...(isUsualTier(body['service_tier']) ? {} : { service_tier: undefined }),
  };
}

/** Usage is always asked for: without it nobody knows what a stream cost. */
function usageEdits(asked: unknown, unasked: boolean): Json {
  if (unasked) {
    // The provider counts of itself, and refuses to be asked.
    if (asked === undefined) return {};
    const { include_usage: _, ...rest } = isRecord(asked) ? asked : {};
    return { stream_options: Object.keys(rest).length > 0 ? rest : undefined };
  }
  if (isRecord(asked) && asked['include_usage'] === true) return {};
  return { stream_options: { ...(isRecord(asked) ? asked : {}), include_usage: true } };
}

/** One limit, by the name that the model knows, also where the caller set none. */
function limitEdits(body: Json, { model, maxTokens }: UpstreamOptions): Json {
  const names = ['max_completion_tokens', 'max_tokens'] as const;
  const said = names.filter((name) => body[name] !== undefined && body[name] !== null);
  const [only] = said;
  const wanted =
    said.length === 1 && only && takesBothLimits(model) && !isRenamed(only, model)
      ? only
      : limitMember(model);
  return Object.fromEntries(
    names.flatMap((name): [string, unknown][] => {
      if (name !== wanted) return name in body ? [[name, undefined]] : [];
      return body[name] === maxTokens ? [] : [[name, maxTokens]];
    }),
  );
}

/** OpenAI's reasoning models know the newer name only. */
const isRenamed = (name: string, model: UpstreamOptions['model']): boolean =>
  model.provider.wire !== 'lathe' && limitMember(model) === 'max_completion_tokens' && name === 'max_tokens';

/** The effort as the model knows it. `reasoning` is the gateway's own member, which our own host knows as well. */
function effortEdits(body: Json, { model, maxTokens }: UpstreamOptions): Json {
  const { reasoning: object, reasoning_effort: named } = body;
  if (object === undefined && named === undefined) return {};
  const asked = reasoningOf(checked(askedEffort, body));
  if (model.provider.wire === 'lathe' && levelsOf(model).length === 0) return {};
  const gone = object === undefined ? {} : { reasoning: undefined };
  const level = asked && effortFor(asked, model, maxTokens);
  return level === named
    ? gone
    : {
        ...gone,
        ...(level === undefined && !('reasoning_effort' in body) ? {} : { reasoning_effort: level }),
      };
}

/** Hints to OpenAI that steer nothing: Mistral's service answers 422 to what it does not know. */
const hints = [
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
    ...Object.fromEntries(hints.filter((name) => name in body).map((name) => [name, undefined])),
    ...('seed' in body ? { seed: undefined, random_seed: body['seed'] ?? undefined } : {}),
  };
}
