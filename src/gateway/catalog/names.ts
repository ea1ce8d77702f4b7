/** Forms of names that are not those of a catalog's models. */

/** The cloud resource provider: callers name deployments of a resource of their own. */
export const cloudProvider = 'azure';

/** An endpoint that was registered from the command line. */
export const endpointForm = /^[a-z][a-z0-9-]{0,31}:[a-z0-9][a-z0-9-]{0,63}$/;
export const endpointRule =
  'expected KIND:SLUG, lower-case letters, digits and dashes on both sides, as vllm:lab';

/** `kind:slug/model`, or undefined. */
export function endpointModel(
  name: string,
): { readonly endpoint: string; readonly model: string } | undefined {
  const slash = name.indexOf('/');
  const [endpoint, model] = [name.slice(0, slash), name.slice(slash + 1)];
  return slash > 0 && model !== '' && endpointForm.test(endpoint) ? { endpoint, model } : undefined;
}

/** `provider/model`, or undefined. */
export function namespaced(name: string): { readonly provider: string; readonly model: string } | undefined {
  const slash = name.indexOf('/');
  if (slash <= 0 || slash === name.length - 1) return undefined;
  return { provider: name.slice(0, slash), model: name.slice(slash + 1) };
}

/** In a host: whatever model it has at the moment. Elsewhere nothing. */
export const residentName = 'resident';
