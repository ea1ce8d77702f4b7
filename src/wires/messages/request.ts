import type { Json } from '../../util/json.ts';
import type { Conversation, Tool } from '../core/conversation.ts';
import type { UpstreamBody, UpstreamOptions } from '../core/wire.ts';
import { levelsOf } from '../core/effort.ts';
import { Violations } from '../core/violations.ts';
import { OpenObjectError, toPortableSchema } from './schema.ts';
import { type Thinking, resolveThinking } from './thinking.ts';
import { type Block, type Turns, toTurns } from './turns.ts';

/**
 * The wire has no mode for JSON without a schema. A tool for the answer would exclude thinking and the caller's own
 * tools, and a closed schema would allow `{}` only, so the model is instructed instead.
 */
const jsonInstruction: Block = {
  type: 'text',
  text: 'Answer with one JSON object and nothing else: no words around it, no code fence.',
};

/**
 * Writes a conversation as a messages request.
 * @throws WireError 400 with everything that the wire cannot express
 */
export function writeRequest(
  conversation: Conversation,
  { model, stream, maxTokens }: UpstreamOptions,
): UpstreamBody {
  const violations = new Violations();
  refuseUnsupported(conversation, violations);
  const written = toTurns(conversation, violations);
  const thinking = resolveThinking({ conversation, turns: written.turns, model, maxTokens }, violations);
  const format = writeFormat(conversation, violations);
  const acceptsSampling = levelsOf(model).length === 0;
  const samplingMembers = writeSampling(conversation, { thinking, acceptsSampling, violations });
  violations.throwIfAny();

  const system = conversation.format.type === 'json' ? [...written.system, jsonInstruction] : written.system;
  const tools = writeTools(conversation, written, model.caps.has('structured_output'));
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
      ...(system.length > 0 ? { system: writeSystem(system) } : {}),
      messages: written.turns,
      ...tools,
      ...(thinking.thinking ? { thinking: thinking.thinking } : {}),
      ...(Object.keys(outputConfig).length > 0 ? { output_config: outputConfig } : {}),
      ...samplingMembers,
      ...(conversation.stop.length > 0 ? { stop_sequences: conversation.stop } : {}),
    }),
  };
}

function refuseUnsupported(conversation: Conversation, violations: Violations): void {
  const { topLogprobs, presencePenalty, frequencyPenalty, stop, seed } = conversation;
  if (topLogprobs !== undefined)
    violations.addUnsupported(
      'logprobs',
      "this model's provider does not support log probabilities; leave it out",
    );
  if (presencePenalty)
    violations.addUnsupported(
      'presence_penalty',
      "this model's provider does not support penalties; leave it out, or send 0",
    );
  if (frequencyPenalty)
    violations.addUnsupported(
      'frequency_penalty',
      "this model's provider does not support penalties; leave it out, or send 0",
    );
  if (seed !== undefined)
    violations.addUnsupported('seed', "this model's provider does not support a seed; leave it out");
  if (stop.some((text) => text.trim() === ''))
    violations.addUnsupported(
      'stop',
      'this model does not support stop texts of white space only; leave it out',
    );
}

function writeSystem(system: readonly Block[]): string | readonly Block[] {
  const [only] = system;
  return system.length === 1 && only && only.cache_control === undefined ? String(only.text) : system;
}

function writeFormat({ format }: Conversation, violations: Violations): Json | undefined {
  if (format.type !== 'schema') return undefined;
  try {
    return { type: 'json_schema', schema: toPortableSchema(format.schema) };
  } catch (error) {
    if (!(error instanceof OpenObjectError)) throw error;
    const location = error.path === '' ? 'the schema' : `'${error.path}' of the schema`;
    violations.addUnsupported(
      'response_format',
      `${location} is an object with arbitrary members, which this model's provider does not support; ` +
        'list the members in properties, or use json_object',
    );
    return undefined;
  }
}

function writeTools(
  { tools, toolChoice, parallelToolCalls }: Conversation,
  { turns }: Turns,
  supportsStrict: boolean,
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
    tools: tools.map((tool) => writeTool(tool, supportsStrict)),
    ...writeToolChoice(toolChoice, parallelToolCalls),
  };
}

function writeTool({ name, description, parameters, strict, cache }: Tool, supportsStrict: boolean): Json {
  const schema = { type: 'object', ...parameters };
  const closedSchema = strict === true && supportsStrict ? toClosedSchema(schema) : undefined;
  return {
    name,
    ...(description === undefined ? {} : { description }),
    input_schema: closedSchema ?? schema,
    ...(closedSchema ? { strict: true } : {}),
    ...(cache
      ? { cache_control: { type: 'ephemeral', ...(cache.ttl === undefined ? {} : { ttl: cache.ttl }) } }
      : {}),
  };
}

/** A closed schema for a strict tool; undefined where there is none, and the tool is then not strict. */
function toClosedSchema(schema: Json): Json | undefined {
  try {
    return toPortableSchema(schema);
  } catch (error) {
    if (error instanceof OpenObjectError) return undefined;
    throw error;
  }
}

function writeToolChoice(choice: Conversation['toolChoice'], parallel: boolean | undefined) {
  if (choice === 'none') return { tool_choice: { type: 'none' } };
  const parallelMember = parallel === false ? { disable_parallel_tool_use: true } : {};
  if (choice === 'required') return { tool_choice: { type: 'any', ...parallelMember } };
  if (typeof choice === 'object')
    return { tool_choice: { type: 'tool', name: choice.name, ...parallelMember } };
  return choice === undefined && parallel !== false
    ? {}
    : { tool_choice: { type: 'auto', ...parallelMember } };
}

/**
 * Sampling members that the model accepts. With thinking, only `top_p` near 1 may be set. Models with effort levels
 * accept no sampling settings. Others accept one of temperature and `top_p`. An unsupported `top_p` is refused;
 * temperature and `top_k`, which clients set by default, are dropped.
 */
function writeSampling(
  { temperature, topP, topK }: Conversation,
  {
    thinking,
    acceptsSampling,
    violations,
  }: { readonly thinking: Thinking; readonly acceptsSampling: boolean; readonly violations: Violations },
) {
  // 1 is the default.
  const appliedTopP = topP === undefined || topP >= 1 ? undefined : topP;
  const refuse = (reason: string) => {
    if (appliedTopP !== undefined) violations.addUnsupported('top_p', `${reason}; leave it out`);
    return {};
  };
  if (!acceptsSampling) return refuse('this model does not support it');
  if (thinking.thinking?.type === 'enabled')
    return appliedTopP !== undefined && appliedTopP >= 0.95
      ? { top_p: appliedTopP }
      : refuse('with reasoning this model supports only values of at least 0.95');
  // Other wires allow values up to 2.
  const appliedTemperature = temperature === undefined || temperature >= 1 ? undefined : temperature;
  if (appliedTemperature !== undefined) refuse('this model supports only one of temperature and top_p');
  return {
    ...(appliedTemperature === undefined ? {} : { temperature: appliedTemperature }),
    ...(appliedTopP === undefined || appliedTemperature !== undefined ? {} : { top_p: appliedTopP }),
    ...(topK === undefined || topK <= 0 ? {} : { top_k: topK }),
  };
}
