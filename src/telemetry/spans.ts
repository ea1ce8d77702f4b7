import type { FactsOf, Work, WorkKind } from '../watch/index.ts';
import { errorTypeOf } from './endings.ts';
import { shortName } from './names.ts';
import { gatewayProvider, ownProvider, providerName } from './providers.ts';

type Value = string | number | boolean | string[];
export type Attributes = Record<string, Value>;
type Sparse = Readonly<Record<string, Value | undefined>>;

/** The name and attributes of a span: names and figures, never conversation content. */
export interface SpanFacts {
  readonly name: string;
  readonly attributes: Attributes;
}

type Described = Readonly<{ name: string; attributes: Sparse }>;
type Describers = { readonly [K in WorkKind]: (work: Work<K>) => Described };

/** The span kind: requests are `server`; calls of the resident model, in the same process, are `internal`. */
export function spanKind({ kind, facts }: Work): 'server' | 'client' | 'internal' {
  if (kind === 'completion' || kind === 'gateway') return 'server';
  return kind === 'turn' && (facts as FactsOf['turn']).engine === 'gateway' ? 'client' : 'internal';
}

/**
 * Builds the span of finished work. Names follow the OpenTelemetry semantic conventions for generative AI; attributes
 * that they do not define begin with `lathe.`
 */
export function spanFacts(work: Work): SpanFacts {
  const { name, attributes } = (describers[work.kind] as (work: Work) => Described)(work);
  const { ending } = work;
  return {
    name,
    attributes: defined({
      ...attributes,
      'lathe.outcome': ending?.outcome,
      'error.type': ending && errorTypeOf(ending),
      'http.response.status_code': ending?.status,
    }),
  };
}

const describers: Describers = {
  completion({ id, facts }) {
    return {
      name: named(facts.operation, facts.requestedModel ?? facts.model),
      attributes: {
        ...asked({ ...facts, provider: ownProvider, answering: facts.model }),
        ...used(facts),
        'gen_ai.response.id': id,
        'gen_ai.request.choice.count':
          facts.operation === 'embeddings' || facts.answers === 1 ? undefined : facts.answers,
        'lathe.wire': facts.wire,
        'lathe.queue.duration': seconds(facts.queuedMs),
        'lathe.prefill.duration': seconds(facts.prefillMs),
        'lathe.decode.duration': seconds(facts.decodeMs),
      },
    };
  },
  gateway({ id, facts }) {
    return {
      name: named(facts.operation, facts.requestedModel ?? facts.effectiveModel),
      attributes: {
        ...asked({ ...facts, provider: providerName(facts.provider), answering: facts.effectiveModel }),
        ...used(facts),
        'gen_ai.response.id': id,
        'lathe.wire': short(facts.wire),
        'lathe.gateway.cost': facts.costNanousd === undefined ? undefined : Number(facts.costNanousd),
      },
    };
  },
  task({ id, facts }) {
    return {
      name: named('invoke_agent', facts.agent),
      attributes: {
        'gen_ai.operation.name': 'invoke_agent',
        'gen_ai.provider.name': providerOf(facts),
        'gen_ai.agent.name': short(facts.agent),
        'gen_ai.request.model': short(facts.model),
        ...used(facts),
        'lathe.task.id': short(id),
        'lathe.agent.turns': facts.turns,
      },
    };
  },
  run({ id, facts }) {
    const attributes = { 'gen_ai.workflow.name': short(facts.workflow), 'lathe.run.id': short(id) };
    return { name: 'lathe.run', attributes };
  },
  step({ facts }) {
    return {
      name: 'lathe.step',
      attributes: {
        'gen_ai.workflow.name': short(facts.workflow),
        'gen_ai.agent.name': short(facts.agent),
        'lathe.step.name': short(facts.step),
        'lathe.step.attempts': facts.attempts,
      },
    };
  },
  turn({ facts }) {
    return {
      name: named('chat', facts.model),
      attributes: {
        'gen_ai.operation.name': 'chat',
        'gen_ai.provider.name': providerOf(facts),
        'gen_ai.agent.name': short(facts.agent),
        'gen_ai.request.model': short(facts.model),
        'gen_ai.response.time_to_first_chunk': seconds(facts.firstTokenMs),
        ...used(facts),
        'lathe.tool.calls': facts.calls,
      },
    };
  },
  tool({ facts }) {
    return {
      name: named('execute_tool', facts.tool),
      attributes: {
        'gen_ai.operation.name': 'execute_tool',
        'gen_ai.provider.name': ownProvider,
        'gen_ai.agent.name': short(facts.agent),
        'gen_ai.tool.name': short(facts.tool),
        'gen_ai.tool.call.id': short(facts.callId),
        'gen_ai.tool.type': 'function',
        'lathe.tool.kind': facts.toolKind,
        'lathe.tool.staged': facts.staged,
      },
    };
  },
};

interface Asked {
  readonly operation: string;
  readonly provider: string;
  readonly requestedModel?: string;
  readonly answering: string | undefined;
  readonly stream: boolean;
  readonly firstTokenMs?: number;
}

const asked = ({ operation, provider, requestedModel, answering, stream, firstTokenMs }: Asked): Sparse => ({
  'gen_ai.operation.name': operation,
  'gen_ai.provider.name': provider,
  'gen_ai.request.model': short(requestedModel),
  'gen_ai.response.model': short(answering),
  'gen_ai.request.stream': stream ? true : undefined,
  'gen_ai.response.time_to_first_chunk': stream ? seconds(firstTokenMs) : undefined,
});

interface Used {
  readonly promptTokens?: number;
  readonly cachedTokens?: number;
  readonly completionTokens?: number;
  readonly finish?: string;
}

const used = ({ promptTokens, cachedTokens, completionTokens, finish }: Used): Sparse => ({
  'gen_ai.usage.input_tokens': promptTokens,
  'gen_ai.usage.cache_read.input_tokens': cachedTokens,
  'gen_ai.usage.output_tokens': completionTokens,
  'gen_ai.response.finish_reasons': finish === undefined ? undefined : [shortName(finish)],
});

export const providerOf = ({ engine }: { readonly engine: 'resident' | 'gateway' }): string =>
  engine === 'resident' ? ownProvider : gatewayProvider;

const named = (operation: string, of: string | undefined): string =>
  of === undefined || of === '' ? operation : `${operation} ${shortName(of)}`;

const short = (name: string | undefined): string | undefined =>
  name === undefined ? undefined : shortName(name);
const seconds = (ms: number | undefined): number | undefined => (ms === undefined ? undefined : ms / 1000);

function defined(sparse: Sparse): Attributes {
  const attributes: Attributes = {};
  for (const name in sparse) if (sparse[name] !== undefined) attributes[name] = sparse[name];
  return attributes;
}
