import { shortName } from './names.ts';

/** The resident model: this host answers itself. */
export const ownProvider = 'lathe';
/** The gateway that agents have their models from: who stands behind it is not known here. */
export const gatewayProvider = 'lathe.gateway';

/** Names that the GenAI conventions have for providers, by what a gateway's catalog usually calls them. */
const conventional: Readonly<Record<string, string>> = {
  azure: 'azure.ai.openai',
  bedrock: 'aws.bedrock',
  gemini: 'gcp.gemini',
  google: 'gcp.gemini',
  local: ownProvider,
  mistral: 'mistral_ai',
  vertex: 'gcp.vertex_ai',
  watsonx: 'ibm.watsonx.ai',
  xai: 'x_ai',
};

/** @param id as in the gateway's catalog, or `kind:slug` of a caller's own endpoint; undefined where none was chosen */
export function providerName(id: string | undefined): string {
  if (id === undefined) return gatewayProvider;
  // A slug is the caller's own word for it.
  const kind = id.split(':')[0] ?? id;
  return Object.hasOwn(conventional, kind) ? (conventional[kind] ?? kind) : shortName(kind);
}
