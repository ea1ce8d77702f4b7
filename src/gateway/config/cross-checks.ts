import { cloudProviderId, parseEndpointModel, parseNamespacedName } from '../catalog/model-names.ts';
import { checkHooks } from './hooks.ts';
import { checkCache } from './cache-policy.ts';
import type { ConfigFaults } from './config-faults.ts';
import { checkDeployments, checkFurtherPrices, providersOf, suggestion } from './deployment-checks.ts';
import type { ModelTable } from './schemas.ts';
import type { Entry, Tables } from './tables.ts';

/**
 * Checks the tables against each other: unknown references and ambiguous names.
 * @param resident ids of models that the catalog has in addition to those of the file
 */
export function checkReferences(tables: Tables, resident: readonly string[], faults: ConfigFaults): void {
  if (tables.database !== undefined && tables.databaseEnv !== undefined)
    faults.add(['database_env'], 'database is set too; keep one of the two');
  checkProviders(tables, faults);
  checkModels(tables, faults);
  const ids = [...tables.declaredIds.models, ...resident];
  checkAliases(tables, ids, faults);
  checkFallbacks(tables, ids, faults);
  checkByok(tables, faults);
  checkSecrets(tables, faults);
  checkWebhook(tables, faults);
  checkCache(tables, faults);
  checkHooks(tables, ids, faults);
}

function checkWebhook({ webhook }: Tables, faults: ConfigFaults): void {
  if (!webhook) return;
  const { secret_env: env, secret_file: file } = webhook;
  if (env === undefined && file === undefined)
    faults.add(['webhook'], 'needs secret_env = "NAME" or secret_file = "PATH", which signs what is posted');
  if (env !== undefined && file !== undefined)
    faults.add(['webhook', 'secret_file'], 'secret_env is set too; keep one of the two');
}

function checkProviders({ providers, byok }: Tables, faults: ConfigFaults): void {
  for (const { path, value, isDuplicate } of markDuplicates(providers, ({ id }) => id)) {
    const { id, wire, access, api_key_env: env, api_key_file: file, base_url: url } = value;
    if (isDuplicate) faults.add([...path, 'id'], `'${id}' is the id of an earlier provider, too`);
    if (id === 'local')
      faults.add([...path, 'id'], "'local' is the host's own resident model; choose another id");
    if (Array.isArray(url) && url.length > 1 && wire !== 'lathe')
      faults.add([...path, 'base_url'], 'only the wire lathe supports several URLs; name one URL');
    if (env !== undefined && file !== undefined)
      faults.add([...path, 'api_key_file'], 'api_key_env is set too; keep one of the two');
    const hasKey = env !== undefined || file !== undefined;
    if (access === 'byok' && hasKey)
      faults.add([...path, 'access'], '"byok" uses callers\' keys only; remove api_key_env and api_key_file');
    if (access === 'byok' && !byok.some((one) => one.value.id === id))
      faults.add(
        [...path, 'access'],
        `"byok" needs a table [byok.${id}], so that callers may store their keys`,
      );
    if (access === undefined && !hasKey && !isKeyOptional(wire, url))
      faults.add(
        path,
        'needs api_key_env = "NAME" or api_key_file = "PATH"; or access = "byok" if only callers\' own keys are used, or access = "house" if the provider needs no key',
      );
  }
}

/** Self-hosted servers usually need no key. */
const isKeyOptional = (wire: string, url: string | readonly string[]): boolean =>
  wire === 'lathe' || [url].flat().every((one) => one.startsWith('http://'));

function checkModels({ models, declaredIds: named }: Tables, faults: ConfigFaults): void {
  for (const { path, value, isDuplicate } of markDuplicates(models, ({ id }) => id)) {
    const { id, provider, caps, context_window: window, max_output_tokens: maxOutput } = value;
    const generatesText = caps.includes('chat') || caps.includes('completions');
    const memberPath = (member: string) => [...path, member];
    if (isDuplicate) faults.add(memberPath('id'), `'${id}' is the id of an earlier model, too`);
    const ambiguity = ambiguityOf(value, models);
    if (ambiguity !== undefined)
      faults.add(memberPath('id'), `'${id}' would be read as ${ambiguity}; choose another id`);
    if (provider === undefined && !value.deployments)
      faults.add(memberPath('provider'), 'is missing; name a provider, or add tables [[models.deployments]]');
    if (provider !== undefined && !named.providers.includes(provider))
      faults.add(
        memberPath('provider'),
        `there is no provider '${provider}'${suggestion(provider, named.providers)}`,
      );
    checkDeployments({ path, value }, { providers: named.providers, generatesText }, faults);
    if (!generatesText && !caps.includes('embeddings'))
      faults.add(memberPath('caps'), 'needs one of chat, completions and embeddings');
    for (const member of ['out_usd_per_mtok', 'max_output_tokens'] as const)
      if (generatesText && value[member] === undefined)
        faults.add(memberPath(member), 'is missing; a model that answers has one');
    if (maxOutput !== undefined && maxOutput > window)
      faults.add(
        memberPath('max_output_tokens'),
        `must not be more than context_window, ${window}; got ${maxOutput}`,
      );
    checkFurtherPrices(value, { window, at: (...rest) => [...path, ...rest] }, faults);
    if (value.embedding_dimensions !== undefined && !caps.includes('embeddings'))
      faults.add(memberPath('embedding_dimensions'), 'belongs to models with the capability embeddings');
    if (value.efforts !== undefined && !caps.includes('reasoning'))
      faults.add(memberPath('efforts'), 'belongs to models with the capability reasoning');
  }
}

/** What else a request could mean by this model id; undefined when it is unambiguous. */
function ambiguityOf(model: ModelTable, models: readonly Entry<ModelTable>[]): string | undefined {
  const { id } = model;
  if (parseEndpointModel(id)) return "a model of an endpoint 'kind:slug'";
  const inside = parseNamespacedName(id);
  if (inside?.provider === cloudProviderId)
    return `a deployment of a caller's own ${cloudProviderId} resource`;
  if (!inside) return undefined;
  const other = models.find(
    ({ value }) => value.id === inside.model && providersOf(value).includes(inside.provider),
  );
  return (
    other &&
    `the model '${other.value.id}' of the provider '${inside.provider}' (${providersOf(model).join(', ')} has this one)`
  );
}

function checkAliases({ aliases }: Tables, ids: readonly string[], faults: ConfigFaults): void {
  for (const { path, value } of aliases) {
    const { name, to } = value;
    if (ids.includes(name)) faults.add(path, `would hide the model of the same id; choose another name`);
    if (ids.includes(to)) continue;
    if (aliases.some((other) => other.value.name === to))
      faults.add(path, `'${to}' is an alias itself; name the model that it refers to`);
    else faults.add(path, `there is no model '${to}'${suggestion(to, ids)}`);
  }
}

function checkFallbacks(
  { fallbacks, models, aliases }: Tables,
  ids: readonly string[],
  faults: ConfigFaults,
): void {
  const capsOf = new Map(models.map(({ value }) => [value.id, value.caps]));
  const unknown = (id: string) =>
    aliases.some(({ value }) => value.name === id)
      ? `'${id}' is an alias; name the model that it refers to`
      : `there is no model '${id}'${suggestion(id, ids)}`;
  for (const { path, value, isDuplicate } of markDuplicates(fallbacks, ({ model }) => model)) {
    const { model, to } = value;
    if (!ids.includes(model)) faults.add([...path, 'model'], unknown(model));
    if (isDuplicate)
      faults.add([...path, 'model'], `'${model}' has fallbacks already; name all of them there`);
    for (const [index, other] of to.entries()) {
      const at = [...path, 'to', index];
      if (!ids.includes(other)) faults.add(at, unknown(other));
      else if (other === model) faults.add(at, `'${model}' cannot be its own fallback`);
      else if (to.indexOf(other) < index) faults.add(at, `'${other}' is named twice`);
      const caps = capsOf.get(model) ?? [];
      // Caching affects the price only, and most requests to a chat model are chats.
      const optional = caps.includes('chat') ? ['caching', 'completions'] : ['caching'];
      const missingCaps = caps.filter(
        (cap) => !optional.includes(cap) && capsOf.get(other)?.includes(cap) === false,
      );
      if (missingCaps.length > 0)
        faults.add(
          at,
          `'${other}' lacks ${missingCaps.join(', ')}, which '${model}' has, so it cannot be its fallback`,
        );
    }
  }
}

function checkByok({ byok, providers, declaredIds: named, secrets }: Tables, faults: ConfigFaults): void {
  for (const { path, value } of byok) {
    const { id, wire, base_url: url, host_suffixes: suffixes, base_path: basePath } = value;
    const provider = providers.find((one) => one.value.id === id)?.value;
    const isCloud = id === cloudProviderId;
    if (url !== undefined && suffixes !== undefined)
      faults.add(
        [...path, 'host_suffixes'],
        'belongs to providers without base_url, whose callers name their own',
      );
    if (basePath !== undefined && url !== undefined)
      faults.add(
        [...path, 'base_path'],
        'belongs to providers without base_url; write it at the end of base_url',
      );
    if (!provider && !isCloud && !named.providers.includes(id)) {
      if (wire === undefined)
        faults.add(
          path,
          `needs wire = "...", since there is no provider '${id}'${suggestion(id, named.providers)}`,
        );
      if (url === undefined && suffixes === undefined)
        faults.add(path, 'needs base_url = "https://..." or host_suffixes = [".provider.example"]');
    }
    if (provider && Array.isArray(provider.base_url) && provider.base_url.length > 1 && url === undefined)
      faults.add(path, `needs base_url, since the provider '${id}' has several`);
    if (!secrets)
      faults.add(
        path,
        'needs [secrets] master_key_env = "NAME" to encrypt callers\' keys with: 32 random bytes, as `openssl rand -base64 32` makes them',
      );
  }
}

function checkSecrets({ secrets }: Tables, faults: ConfigFaults): void {
  if (!secrets) return;
  const { path, value } = secrets;
  const { master_key_env: env, master_key_file: file, previous = [] } = value;
  if (env !== undefined && file !== undefined)
    faults.add([...path, 'master_key_file'], 'master_key_env is set too; keep one of the two');
  if (env === undefined && file === undefined)
    faults.add(path, 'needs master_key_env = "NAME" or master_key_file = "PATH"');
  for (const [index, source] of previous.entries())
    if ((source.env === undefined) === (source.file === undefined))
      faults.add([...path, 'previous', index], 'needs one of env = "NAME" and file = "PATH"');
}

/** Adds to each entry whether an earlier one has the same name. */
const markDuplicates = <T>(entries: readonly Entry<T>[], name: (value: T) => string) =>
  entries.map((entry, index) => ({
    ...entry,
    isDuplicate: entries.slice(0, index).some((earlier) => name(earlier.value) === name(entry.value)),
  }));
