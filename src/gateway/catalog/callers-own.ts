/** Models that only their caller knows of: the gateway learns nothing of them but the name. They cost nothing here. */
import type { OwnCredential } from '../access/types.ts';
import type { ByokProvider } from '../config/types.ts';
import { free } from './rate-card.ts';
import { type Candidate, type Model, type Provider } from './types.ts';
import { caps, type Effort } from '../../wires/core/types.ts';

/** As OpenAI names them: the caller's goes through as it is, and only `max` becomes the one below. */
const efforts: readonly Effort[] = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh'];
/** Of the largest that there are; the provider refuses what is too much for the one. */
const contextWindow = 1_048_576;
const maxOutputTokens = 131_072;

/** Names of deployments, as the cloud provider allows them. */
export const deploymentForm = /^[A-Za-z0-9][\w.-]{0,63}$/;

interface Own {
  readonly model: Model;
  readonly credential: Candidate['credential'];
}

/** @param name as it was asked for: `deployment`, or `azure/deployment` */
export const cloudDeployment = (
  name: string,
  deployment: string,
  { cloud, resource }: { cloud: ByokProvider; resource: OwnCredential },
): Own =>
  owned({ name, upstream: deployment, wire: cloud.wire, provider: cloud.id, family: 'openai' }, resource);

/** @param name as it was asked for: `kind:slug/model` */
export const endpointsModel = (name: string, upstream: string, endpoint: OwnCredential): Own =>
  owned({ name, upstream, wire: 'openai-chat', provider: endpoint.provider, family: 'unknown' }, endpoint);

function owned(
  {
    name,
    upstream,
    wire,
    provider: id,
    family,
  }: { name: string; upstream: string; wire: Provider['wire']; provider: string; family: string },
  { apiKey, baseUrl }: OwnCredential,
): Own {
  const at = baseUrl === undefined ? {} : { baseUrl };
  const baseUrls = baseUrl === undefined ? [] : [baseUrl];
  const provider: Provider = { id, wire, baseUrls, apiKey: undefined, access: 'byok' };
  return {
    model: {
      id: name,
      provider,
      upstream,
      family,
      // The provider judges what it can do.
      caps: new Set(caps),
      contextWindow,
      maxOutputTokens,
      ...free,
      displayName: name,
      embeddingDimensions: undefined,
      efforts,
    },
    credential: { kind: 'byok', provider: id, apiKey, ...at },
  };
}
