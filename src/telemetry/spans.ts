import type { SpanAttributes, TraceSpan, TraceSpanKind } from '../tracing/index.ts';
import { errorTypeOf } from './error-type.ts';
import { shortenName } from './label-names.ts';
import { gatewayProvider, residentProvider, toProviderName } from './providers.ts';

type Value = string | number | boolean | string[];
export type Attributes = Record<string, Value>;
type Sparse = Readonly<Record<string, Value | undefined>>;

/** The name and attributes of a span: names and figures, never conversation content. */
export interface SpanDescription {
  readonly name: string;
  readonly attributes: Attributes;
}

type SparseDescription = Readonly<{ name: string; attributes: Sparse }>;
type Describers = { readonly [K in TraceSpanKind]: (traceSpan: TraceSpan<K>) => SparseDescription };

/** The span kind: requests are `server`; calls of the resident model, in the same process, are `internal`. */
export function spanKindOf({ kind, attributes: facts }: TraceSpan): 'server' | 'client' | 'internal' {
  if (kind === 'completion' || kind === 'gateway') return 'server';
  return kind === 'turn' && (facts as SpanAttributes['turn']).engine === 'gateway' ? 'client' : 'internal';
}

/**
 * Builds the span of finished work. Names follow the OpenTelemetry semantic conventions for generative AI; attributes
 * that they do not define begin with `lathe.`
 */
export function describeSpan(traceSpan: TraceSpan): SpanDescription {
  const { name, attributes } = (describers[traceSpan.kind] as (traceSpan: TraceSpan) => SparseDescription)(
    traceSpan,
  );
  const { result } = traceSpan;
  return {
    name,
    attributes: withoutUndefined({
      ...attributes,
      'lathe.outcome': result?.outcome,
      'error.type': result && errorTypeOf(result),
      'http.response.status_code': result?.status,
    }),
  };
}

const describers: Describers = {
  completion({ id, attributes: facts }) {
    return {
      name: spanName(facts.operation, facts.requestedModel ?? facts.model),
      attributes: {
        ...requestAttributes({ ...facts, provider: residentProvider, responseModel: facts.model }),
        ...usageAttributes(facts),
        'gen_ai.response.id': id,
        'gen_ai.request.choice.count':
          ['embeddings', 'rerank'].includes(facts.operation) || facts.answers === 1
            ? undefined
            : facts.answers,
        'lathe.wire': facts.wire,
        'lathe.queue.duration': toSeconds(facts.queuedMs),
        'lathe.prefill.duration': toSeconds(facts.prefillMs),
        'lathe.decode.duration': toSeconds(facts.decodeMs),
      },
    };
  },
  gateway({ id, attributes: facts }) {
    return {
      name: spanName(facts.operation, facts.requestedModel ?? facts.effectiveModel),
      attributes: {
        ...requestAttributes({
          ...facts,
          provider: toProviderName(facts.provider),
          responseModel: facts.effectiveModel,
        }),
        ...usageAttributes(facts),
        'gen_ai.response.id': id,
        'lathe.wire': shortenOptional(facts.wire),
        'lathe.gateway.cost': facts.costNanousd === undefined ? undefined : Number(facts.costNanousd),
      },
    };
  },
  task({ id, attributes: facts }) {
    return {
      name: spanName('invoke_agent', facts.agent),
      attributes: {
        'gen_ai.operation.name': 'invoke_agent',
        'gen_ai.provider.name': providerOf(facts),
        'gen_ai.agent.name': shortenOptional(facts.agent),
        'gen_ai.request.model': shortenOptional(facts.model),
        ...usageAttributes(facts),
        'lathe.task.id': shortenOptional(id),
        'lathe.agent.turns': facts.turns,
      },
    };
  },
  run({ id, attributes: facts }) {
    const attributes = {
      'gen_ai.workflow.name': shortenOptional(facts.workflow),
      'lathe.run.id': shortenOptional(id),
    };
    return { name: 'lathe.run', attributes };
  },
  step({ attributes: facts }) {
    return {
      name: 'lathe.step',
      attributes: {
        'gen_ai.workflow.name': shortenOptional(facts.workflow),
        'gen_ai.agent.name': shortenOptional(facts.agent),
        'lathe.step.name': shortenOptional(facts.step),
        'lathe.step.attempts': facts.attempts,
      },
    };
  },
  turn({ attributes: facts }) {
    return {
      name: spanName('chat', facts.model),
      attributes: {
        'gen_ai.operation.name': 'chat',
        'gen_ai.provider.name': providerOf(facts),
        'gen_ai.agent.name': shortenOptional(facts.agent),
        'gen_ai.request.model': shortenOptional(facts.model),
        'gen_ai.response.time_to_first_chunk': toSeconds(facts.firstTokenMs),
        ...usageAttributes(facts),
        'lathe.tool.calls': facts.calls,
      },
    };
  },
  tool({ attributes: facts }) {
    return {
      name: spanName('execute_tool', facts.tool),
      attributes: {
        'gen_ai.operation.name': 'execute_tool',
        'gen_ai.provider.name': residentProvider,
        'gen_ai.agent.name': shortenOptional(facts.agent),
        'gen_ai.tool.name': shortenOptional(facts.tool),
        'gen_ai.tool.call.id': shortenOptional(facts.callId),
        'gen_ai.tool.type': 'function',
        'lathe.tool.kind': facts.toolKind,
        'lathe.tool.staged': facts.staged,
      },
    };
  },
};

interface SpanRequestFacts {
  readonly operation: string;
  readonly provider: string;
  readonly requestedModel?: string;
  readonly responseModel: string | undefined;
  readonly stream: boolean;
  readonly firstTokenMs?: number;
}

const requestAttributes = ({
  operation,
  provider,
  requestedModel,
  responseModel,
  stream,
  firstTokenMs,
}: SpanRequestFacts): Sparse => ({
  'gen_ai.operation.name': operation,
  'gen_ai.provider.name': provider,
  'gen_ai.request.model': shortenOptional(requestedModel),
  'gen_ai.response.model': shortenOptional(responseModel),
  'gen_ai.request.stream': stream ? true : undefined,
  'gen_ai.response.time_to_first_chunk': stream ? toSeconds(firstTokenMs) : undefined,
});

interface UsageFacts {
  readonly promptTokens?: number;
  readonly cachedTokens?: number;
  readonly completionTokens?: number;
  readonly finish?: string;
}

const usageAttributes = ({ promptTokens, cachedTokens, completionTokens, finish }: UsageFacts): Sparse => ({
  'gen_ai.usage.input_tokens': promptTokens,
  'gen_ai.usage.cache_read.input_tokens': cachedTokens,
  'gen_ai.usage.output_tokens': completionTokens,
  'gen_ai.response.finish_reasons': finish === undefined ? undefined : [shortenName(finish)],
});

export const providerOf = ({ engine }: { readonly engine: 'resident' | 'gateway' }): string =>
  engine === 'resident' ? residentProvider : gatewayProvider;

const spanName = (operation: string, of: string | undefined): string =>
  of === undefined || of === '' ? operation : `${operation} ${shortenName(of)}`;

const shortenOptional = (name: string | undefined): string | undefined =>
  name === undefined ? undefined : shortenName(name);
const toSeconds = (ms: number | undefined): number | undefined => (ms === undefined ? undefined : ms / 1000);

function withoutUndefined(sparse: Sparse): Attributes {
  const attributes: Attributes = {};
  for (const name in sparse) if (sparse[name] !== undefined) attributes[name] = sparse[name];
  return attributes;
}
