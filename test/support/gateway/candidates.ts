import type { Candidate, Model, Price, Provider } from '../../../src/gateway/catalog/types.ts';
import type { WireKind } from '../../../src/wires/providers.ts';
import type { UpstreamRequest } from '../../../src/gateway/upstream/types.ts';

const price: Price = {
  input: 0n,
  output: 0n,
  cacheRead: 0n,
  cacheWrite: 0n,
  cacheWrite1h: 0n,
  identity: 'sha256:0',
};
const usd = '0';

const modelOf = (provider: Provider): Model => ({
  id: 'a-model',
  provider,
  upstream: 'a-model-1',
  family: 'openai',
  caps: new Set(['chat']),
  contextWindow: 1000,
  maxOutputTokens: 100,
  price,
  pricing: {
    in_usd_per_mtok: usd,
    out_usd_per_mtok: usd,
    cache_read_usd_per_mtok: usd,
    cache_write_usd_per_mtok: usd,
  },
  displayName: 'A model',
  embeddingDimensions: undefined,
  efforts: [],
});

/** A provider with the operator's credential and one model; its price does not matter. */
export function aCandidate(
  baseUrls: string | readonly string[],
  {
    id = 'acme',
    wire = 'openai-chat',
    apiKey = 'sk-house',
  }: { id?: string; wire?: WireKind; apiKey?: string | undefined } = {},
): Candidate {
  const urls = typeof baseUrls === 'string' ? [baseUrls] : baseUrls;
  const model = modelOf({ id, wire, baseUrls: urls, apiKey, access: 'house' });
  return { model, credential: { kind: 'house', apiKey } };
}

/** A caller's own credential, at the provider's URL or at one of the caller's. */
export function ownCandidate(provider: string, baseUrl?: string, apiKey = 'sk-own'): Candidate {
  const model = modelOf({
    id: provider,
    wire: 'openai-chat',
    baseUrls: [],
    apiKey: undefined,
    access: 'byok',
  });
  const own = { kind: 'byok', provider, apiKey } as const;
  return { model, credential: baseUrl === undefined ? own : { ...own, baseUrl } };
}

export const aSending = (candidate: Candidate, changed: Partial<UpstreamRequest> = {}): UpstreamRequest => ({
  candidate,
  body: { path: '/chat/completions', headers: {}, text: '{"model":"a-model-1"}' },
  stream: false,
  prefix: '',
  signal: new AbortController().signal,
  ...changed,
});
