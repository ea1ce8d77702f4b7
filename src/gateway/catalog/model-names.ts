/** Formats of model names that are not catalog ids. */

/** The cloud resource provider: callers use deployments of their own resource. */
export const cloudProviderId = 'azure';

/** Name of an endpoint that was registered on the command line. */
export const endpointPattern = /^[a-z][a-z0-9-]{0,31}:[a-z0-9][a-z0-9-]{0,63}$/;
export const endpointRule =
  'expected KIND:SLUG, lower-case letters, digits and dashes on both sides, as vllm:lab';

/** Parses `kind:slug/model`; undefined for other names. */
export function parseEndpointModel(
  name: string,
): { readonly endpoint: string; readonly model: string } | undefined {
  const slash = name.indexOf('/');
  const [endpoint, model] = [name.slice(0, slash), name.slice(slash + 1)];
  return slash > 0 && model !== '' && endpointPattern.test(endpoint) ? { endpoint, model } : undefined;
}

/** Parses `provider/model`; undefined for other names. */
export function parseNamespacedName(
  name: string,
): { readonly provider: string; readonly model: string } | undefined {
  const slash = name.indexOf('/');
  if (slash <= 0 || slash === name.length - 1) return undefined;
  return { provider: name.slice(0, slash), model: name.slice(slash + 1) };
}

/** Alias of the host's resident model. A standalone gateway has none. */
export const residentAlias = 'resident';
