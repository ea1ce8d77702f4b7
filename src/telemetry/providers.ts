import { shortenName } from './label-names.ts';

/** Provider name of the resident model. */
export const residentProvider = 'lathe';
/** Provider name of a remote gateway that serves agents' models; the actual provider is unknown. */
export const gatewayProvider = 'lathe.gateway';

/** Provider names of the GenAI semantic conventions, by the usual ids of gateway catalogs. */
const semconvNames: Readonly<Record<string, string>> = {
  azure: 'azure.ai.openai',
  bedrock: 'aws.bedrock',
  gemini: 'gcp.gemini',
  google: 'gcp.gemini',
  local: residentProvider,
  mistral: 'mistral_ai',
  vertex: 'gcp.vertex_ai',
  watsonx: 'ibm.watsonx.ai',
  xai: 'x_ai',
};

/** @param id a provider id of the catalog, or `kind:slug` of a registered endpoint; undefined when none was chosen */
export function toProviderName(id: string | undefined): string {
  if (id === undefined) return gatewayProvider;
  // The slug is a private name, so only the kind is exported.
  const kind = id.split(':')[0] ?? id;
  return Object.hasOwn(semconvNames, kind) ? (semconvNames[kind] ?? kind) : shortenName(kind);
}
