import type { Json } from '../../util/json.ts';
import type { Conversation, Tool } from '../core/conversation.ts';
import type { UpstreamBody, UpstreamOptions } from '../core/wire.ts';
import { levelsOf } from '../core/effort.ts';
import { Violations } from '../core/violations.ts';
import { OpenObject, portableSchema } from './schema.ts';
import { type Thinking, thinkingOf } from './thinking.ts';
import { type Block, type Turns, turnsOf } from './turns.ts';

/**
 * The wire has no mode for JSON without a schema. A tool for the answer would exclude thinking and the caller's own
 * tools, and a closed schema would allow `{}` only, so the model is instructed instead.
 */
const jsonOnly: Block = {
  type: 'text',
  text: 'Answer with one JSON object and nothing else: no words around it, no code fence.',
};

/**
 * Writes a conversation as a messages request.
 * @throws WireError 400 with everything that the wire cannot express
 */
export function requestOf(
  conversation: Conversation,
  { model, stream, maxTokens }: UpstreamOptions,
): UpstreamBody {
  const faults = new Violations();
  refuseUnsayable(conversation, faults);
  const said = turnsOf(conversation, faults);
  const thinking = thinkingOf({ conversation, turns: said.turns, model, maxTokens }, faults);
  const format = formatOf(conversation, faults);
  const takesSampling = levelsOf(model).length === 0;
  const drawing = sampling(conversation, { thinking, takesSampling, faults });
  faults.throwAny();

  const system = conversation.format.type === 'json' ? [...said.system, jsonOnly] : said.system;
  const tools = toolsOf(conversation, said, model.caps.has('structured_output'));
  const outputConfig = {
    ...(thinking.effort === undefined ? {} : { effort: thinking.effort }),
    ...(format ? { format } : {}),
  };
  return {
    path: '/messages',
    headers: {},
    text: JSON.stringify({
      model: model.upstream,
      max_tokens: maxTokens,
      ...(stream ? { stream } : {}),
      ...(system.length > 0 ? { system: systemOf(system) } : {}),
      messages: said.turns,
      ...tools,
      ...(thinking.thinking ? { thinking: thinking.thinking } : {}),
      ...(Object.keys(outputConfig).length > 0 ? { output_config: outputConfig } : {}),
      ...drawing,
      ...(conversation.stop.length > 0 ? { stop_sequences: conversation.stop } : {}),
    }),
  };
}

function refuseUnsayable(conversation: Conversation, faults: Violations): void {
  const { topLogprobs, presencePenalty, frequencyPenalty, stop, seed } = conversation;
  if (topLogprobs !== undefined)
    faults.refuse('logprobs', "this model's provider does not support log probabilities; leave it out");
  if (presencePenalty)
    faults.refuse(
      'presence_penalty',
      "this model's provider does not support penalties; leave it out, or send 0",
    );
  if (frequencyPenalty)
    faults.refuse(
      'frequency_penalty',
      "this model's provider does not support penalties; leave it out, or send 0",
    );
  if (seed !== undefined)
    faults.refuse('seed', "this model's provider does not support a seed; leave it out");
  if (stop.some((text) => text.trim() === ''))
    faults.refuse('stop', 'this model does not support stop texts of white space only; leave it out');
}

function systemOf(system: readonly Block[]): string | readonly Block[] {
  const [only] = system;
  return system.length === 1 && only && only.cache_control === undefined ? String(only.text) : system;
}

function formatOf({ format }: Conversation, faults: Violations): Json | undefined {
  if (format.type !== 'schema') return undefined;
  try {
    return { type: 'json_schema', schema: portableSchema(format.schema) };
  } catch (error) {
    if (!(error instanceof OpenObject)) throw error;
    const place = error.path === '' ? 'the schema' : `'${error.path}' of the schema`;
    faults.refuse(
      'response_format',
      `${place} is an object with arbitrary members, which this model's provider does not support; ` +
        'list the members in properties, or use json_object',
    );
    return undefined;
  }
}

function toolsOf(
  { tools, toolChoice, parallelToolCalls }: Conversation,
  { turns }: Turns,
  knowsStrict: boolean,
) {
  if (tools.length === 0) {
    // Earlier calls remain, so their tools must be defined but not called.
    const names = new Set(
      turns.flatMap(({ content }) =>
        content.filter(({ type }) => type === 'tool_use').map(({ name }) => String(name)),
      ),
    );
    if (names.size === 0) return {};
    return {
      tools: [...names].map((name) => ({ name, input_schema: { type: 'object' } })),
      tool_choice: { type: 'none' },
    };
  }
  return {
    tools: tools.map((tool) => toolMember(tool, knowsStrict)),
    ...choiceOf(toolChoice, parallelToolCalls),
  };
}

function toolMember({ name, description, parameters, strict, cache }: Tool, knowsStrict: boolean): Json {
  const schema = { type: 'object', ...parameters };
  const closed = strict === true && knowsStrict ? closedOf(schema) : undefined;
  return {
    name,
    ...(description === undefined ? {} : { description }),
    input_schema: closed ?? schema,
    ...(closed ? { strict: true } : {}),
    ...(cache
      ? { cache_control: { type: 'ephemeral', ...(cache.ttl === undefined ? {} : { ttl: cache.ttl }) } }
      : {}),
  };
}

/** A closed schema for a strict tool; undefined where there is none, and the tool is then not strict. */
function closedOf(schema: Json): Json | undefined {
  try {
    return portableSchema(schema);
  } catch (error) {
    if (error instanceof OpenObject) return undefined;
    throw error;
  }
}

function choiceOf(choice: Conversation['toolChoice'], parallel: boolean | undefined) {
  if (choice === 'none') return { tool_choice: { type: 'none' } };
  const alone = parallel === false ? { disable_parallel_tool_use: true } : {};
  if (choice === 'required') return { tool_choice: { type: 'any', ...alone } };
  if (typeof choice === 'object') return { tool_choice: { type: 'tool', name: choice.name, ...alone } };
  return choice === undefined && parallel !== false ? {} : { tool_choice: { type: 'auto', ...alone } };
}

/**
 * Sampling members that the model accepts. With thinking, only `top_p` near 1 may be set. Models with effort levels
 * accept no sampling settings. Others accept one of temperature and `top_p`. An unsupported `top_p` is refused;
 * temperature and `top_k`, which clients set by default, are dropped.
 */
function sampling(
  { temperature, topP, topK }: Conversation,
  {
    thinking,
    takesSampling,
    faults,
  }: { readonly thinking: Thinking; readonly takesSampling: boolean; readonly faults: Violations },
) {
  // 1 is the default.
  const top = topP === undefined || topP >= 1 ? undefined : topP;
  const refuse = (why: string) => {
    if (top !== undefined) faults.refuse('top_p', `${why}; leave it out`);
    return {};
  };
  if (!takesSampling) return refuse('this model does not support it');
  if (thinking.thinking?.type === 'enabled')
    return top !== undefined && top >= 0.95
      ? { top_p: top }
      : refuse('with reasoning this model supports only values of at least 0.95');
  // Other wires allow values up to 2.
  const warmth = temperature === undefined || temperature >= 1 ? undefined : temperature;
  if (warmth !== undefined) refuse('this model supports only one of temperature and top_p');
  return {
    ...(warmth === undefined ? {} : { temperature: warmth }),
    ...(top === undefined || warmth !== undefined ? {} : { top_p: top }),
    ...(topK === undefined || topK <= 0 ? {} : { top_k: topK }),
  };
}
