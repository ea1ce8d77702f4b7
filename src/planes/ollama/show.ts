import { chatTraits } from '../../chat/index.ts';
import type { ModelCard, ModelStore } from '../model-store.ts';
import { HttpError } from '../../http/error.ts';
import type { Resident } from '../resident.ts';
import { defineRoute } from '../../http/route.ts';
import { flag, requestBody, text } from '../../wires/core/members.ts';
import { storeRefusals } from './answers.ts';
import { type Capability, showAnswer } from './model-schema.ts';
import { modelMembers } from '../../wires/ollama/options-schema.ts';
import { nameOf, requireKnown } from './model.ts';
import { detailsOf } from './tags.ts';

const showRequest = requestBody('OllamaShowRequest', {
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
    looseBody: true,
    answers: {
      200: {
        description: 'Details from the file of the model.',
        content: { 'application/json': showAnswer },
      },
      ...storeRefusals,
    },
    async handle({ body }) {
      const stored = await requireKnown(store, resident, nameOf(body));
      const card = await store.card(stored, body.verbose === true);
      if (card.problem !== undefined)
        throw new HttpError(500, 'unusable_model', `'${stored.name}' cannot be used: ${card.problem}`);
      const { system, parameters = {} } = card.defaults;
      const written = parametersOf(parameters);
      return Response.json({
        modelfile: modelfileOf(stored.name, system, written),
        parameters: written.join('\n'),
        template: templateOf(card) ?? '',
        ...(system === undefined ? {} : { system }),
        details: detailsOf(card),
        model_info: infoOf(card),
        capabilities: capabilitiesOf(card, resident),
        modified_at: card.modifiedAt.toISOString(),
      });
    },
  });
}

const templateOf = ({ metadata }: ModelCard): string | undefined => {
  const template = metadata.get('tokenizer.chat_template');
  return typeof template === 'string' ? template : undefined;
};

/** Writes parameters as lines such as `stop "<|im_end|>"`, one per value. */
const parametersOf = (parameters: Readonly<Record<string, unknown>>): string[] =>
  Object.entries(parameters).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((one) => `${name} ${JSON.stringify(one)}`),
  );

function modelfileOf(name: string, system: string | undefined, parameters: readonly string[]): string {
  return [
    `FROM ${name}`,
    ...(system === undefined ? [] : [`SYSTEM """${system}"""`]),
    ...parameters.map((line) => `PARAMETER ${line}`),
    '',
  ].join('\n');
}

/** The metadata as JSON, without the template, which has its own member. */
function infoOf({ metadata, parameters }: ModelCard): Record<string, unknown> {
  const info: Record<string, unknown> = { 'general.parameter_count': parameters };
  for (const [key, value] of metadata) {
    if (!key.startsWith('tokenizer.chat_template')) info[key] = plain(value);
  }
  return info;
}

function plain(value: unknown): unknown {
  if (typeof value === 'bigint') return Number(value);
  if (Array.isArray(value)) return value.map(plain);
  return ArrayBuffer.isView(value) ? Array.from(value as unknown as Iterable<number | bigint>, plain) : value;
}

/** The capabilities of a model. For a model that is not resident they are inferred from the template text. */
function capabilitiesOf(card: ModelCard, { state }: Resident): Capability[] {
  if (card.kind === 'embed') return ['embedding'];
  const traits =
    state.kind === 'ready' && state.location === card.location ? chatTraits(state.engine) : undefined;
  const template = templateOf(card) ?? '';
  const tools = traits ? traits.toolStyle !== undefined : /\btools\b/.test(template);
  const thinks = traits ? traits.reasoning : /<think>|enable_thinking|reasoning_content/.test(template);
  return [
    'completion',
    ...(tools ? (['tools'] as const) : []),
    ...(card.insert ? (['insert'] as const) : []),
    ...(thinks ? (['thinking'] as const) : []),
  ];
}
