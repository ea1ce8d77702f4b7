import type { Model } from '../../../src/gateway/catalog/types.ts';
import type { Cap } from '../../../src/wires/core/types.ts';
import type { WireKind } from '../../../src/wires/providers.ts';

/** A model of an invented catalog. */
export const modelOf = (wire: WireKind, more: Partial<Model> = {}): Model => ({
  id: 'the-model',
  provider: { id: 'the-provider', wire, baseUrls: ['http://127.0.0.1:1/v1'], apiKey: 'key', access: 'house' },
  upstream: 'upstream-model',
  family: 'openai',
  caps: new Set<Cap>(['chat', 'tools', 'images', 'reasoning', 'structured_output', 'embeddings']),
  contextWindow: 100_000,
  maxOutputTokens: 8_000,
  price: {
    input: 1_000_000n,
    output: 4_000_000n,
    cacheRead: 100_000n,
    cacheWrite: 1_250_000n,
    cacheWrite1h: 2_000_000n,
    identity: 'sha256:0',
  },
  pricing: {
    in_usd_per_mtok: '1',
    out_usd_per_mtok: '4',
    cache_read_usd_per_mtok: '0.1',
    cache_write_usd_per_mtok: '1.25',
  },
  displayName: 'The model',
  embeddingDimensions: undefined,
  efforts: [],
  ...more,
});
