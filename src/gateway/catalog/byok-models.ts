/** Models reached with a caller's own credential. The gateway knows only their names, and they are free of charge. */
import type { ByokCredential } from '../access/types.ts';
import type { ByokProvider } from '../config/types.ts';
import { freeRateCard } from './rate-card.ts';
import { type Candidate, type Model, type Provider } from './types.ts';
import { caps, type Effort } from '../../wires/core/types.ts';

/** OpenAI's effort levels, passed through unchanged; `max` is mapped to `xhigh`. */
const efforts: readonly Effort[] = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh'];
/** The limits of the largest known models; the provider enforces the model's own limits. */
const contextWindow = 1_048_576;
const maxOutputTokens = 131_072;

/** Deployment names that the cloud provider allows. */
export const deploymentPattern = /^[A-Za-z0-9][\w.-]{0,63}$/;

interface ByokModel {
  readonly model: Model;
  readonly credential: Candidate['credential'];
}

/** A deployment of the caller's cloud resource. @param name the requested name: `deployment` or `azure/deployment` */
export const cloudDeploymentModel = (
  name: string,
  deployment: string,
  { cloud, resource }: { cloud: ByokProvider; resource: ByokCredential },
): ByokModel =>
  byokModel({ name, upstream: deployment, wire: cloud.wire, provider: cloud.id, family: 'openai' }, resource);

/** A model of a registered endpoint. @param name the requested name: `kind:slug/model` */
export const endpointModel = (name: string, upstream: string, endpoint: ByokCredential): ByokModel =>
  byokModel(
    { name, upstream, wire: 'openai-chat', provider: endpoint.provider, family: 'unknown' },
    endpoint,
  );

function byokModel(
  {
    name,
    upstream,
    wire,
    provider: id,
    family,
  }: { name: string; upstream: string; wire: Provider['wire']; provider: string; family: string },
  { apiKey, baseUrl }: ByokCredential,
): ByokModel {
  const baseUrlField = baseUrl === undefined ? {} : { baseUrl };
  const baseUrls = baseUrl === undefined ? [] : [baseUrl];
  const provider: Provider = { id, wire, baseUrls, apiKey: undefined, access: 'byok' };
  return {
    model: {
      id: name,
      provider,
      upstream,
      family,
      // The capabilities are unknown, so all are allowed and the provider decides.
      caps: new Set(caps),
      contextWindow,
      maxOutputTokens,
      ...freeRateCard,
      displayName: name,
      embeddingDimensions: undefined,
      efforts,
    },
    credential: { kind: 'byok', provider: id, apiKey, ...baseUrlField },
  };
}
