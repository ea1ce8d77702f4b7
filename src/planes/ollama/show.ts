import { getChatTraits } from '../../chat/index.ts';
import type { ModelCard, ModelStore } from '../model-store.ts';
import { HttpError } from '../../http/error.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { flag, requestBodySchema, text } from '../../wires/core/members.ts';
import { storeErrorResponses } from './error-responses.ts';
import { type Capability, showAnswer } from './model-schema.ts';
import { modelMembers } from '../../wires/ollama/options-schema.ts';
import { requireModelName, requireStoredOrResident } from './model.ts';
import { toDetails } from './tags.ts';

const showRequest = requestBodySchema('OllamaShowRequest', {
  ...modelMembers,
  verbose: flag.nullish().describe('Include long lists of the metadata, such as the vocabulary.'),
  system: text.nullish().describe('No effect.'),
});

export function showRoute(resident: Resident, store: ModelStore) {
  return defineRoute({
    method: 'POST',
    path: '/api/show',
    operationId: 'ollamaShow',
    summary: 'Get the details of a model',
    body: showRequest,
    acceptsLooseContentType: true,
    responses: {
      200: {
        description: 'Details from the file of the model.',
        content: { 'application/json': showAnswer },
      },
      ...storeErrorResponses,
    },
    async handle({ body }) {
      const stored = await requireStoredOrResident(store, resident, requireModelName(body));
      const card = await store.readCard(stored, body.verbose === true);
      if (card.problem !== undefined)
        throw new HttpError(500, 'unusable_model', `'${stored.name}' cannot be used: ${card.problem}`);
      const { system, parameters = {} } = card.defaults;
      const parameterLines = writeParameters(parameters);
      return Response.json({
        modelfile: writeModelfile(stored.name, system, parameterLines),
        parameters: parameterLines.join('\n'),
        template: findTemplate(card) ?? '',
        ...(system === undefined ? {} : { system }),
        details: toDetails(card),
        model_info: writeModelInfo(card),
        capabilities: detectCapabilities(card, resident),
        modified_at: card.modifiedAt.toISOString(),
      });
    },
  });
}

const findTemplate = ({ metadata }: ModelCard): string | undefined => {
  const template = metadata.get('tokenizer.chat_template');
  return typeof template === 'string' ? template : undefined;
};

/** Writes parameters as lines such as `stop "<|im_end|>"`, one per value. */
const writeParameters = (parameters: Readonly<Record<string, unknown>>): string[] =>
  Object.entries(parameters).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((one) => `${name} ${JSON.stringify(one)}`),
  );

function writeModelfile(name: string, system: string | undefined, parameters: readonly string[]): string {
  return [
    `FROM ${name}`,
    ...(system === undefined ? [] : [`SYSTEM """${system}"""`]),
    ...parameters.map((line) => `PARAMETER ${line}`),
    '',
  ].join('\n');
}

/**
 * The metadata as JSON, without the template, which has its own member. `lathe.pooling` says how the host embeds, also
 * where the file names no pooling.
 */
function writeModelInfo({ metadata, parameters, pooling }: ModelCard): Record<string, unknown> {
  const info: Record<string, unknown> = {
    'general.parameter_count': parameters,
    ...(pooling === undefined ? {} : { 'lathe.pooling': pooling }),
  };
  for (const [key, value] of metadata) {
    if (!key.startsWith('tokenizer.chat_template')) info[key] = toJsonValue(value);
  }
  return info;
}

function toJsonValue(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value);
  if (Array.isArray(value)) return value.map(toJsonValue);
  return ArrayBuffer.isView(value)
    ? Array.from(value as unknown as Iterable<number | bigint>, toJsonValue)
    : value;
}

/** The capabilities of a model. For a model that is not resident they are inferred from the template text. */
function detectCapabilities(card: ModelCard, { state }: Resident): Capability[] {
  if (card.kind === 'embed') return ['embedding'];
  if (card.kind === 'rerank') return ['rerank'];
  const traits =
    state.kind === 'ready' && state.location === card.location ? getChatTraits(state.engine) : undefined;
  const template = findTemplate(card) ?? '';
  const supportsTools = traits ? traits.toolStyle !== undefined : /\btools\b/.test(template);
  const supportsThinking = traits
    ? traits.reasoning
    : /<think>|enable_thinking|reasoning_content/.test(template);
  return [
    'completion',
    ...(supportsTools ? (['tools'] as const) : []),
    ...(card.canInsert ? (['insert'] as const) : []),
    ...(supportsThinking ? (['thinking'] as const) : []),
  ];
}
