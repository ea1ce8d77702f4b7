import { didYouMean } from '../../words/nearest.ts';
import { cloudProvider, endpointModel, namespaced } from '../catalog/names.ts';
import type { Faults } from './faults.ts';
import type { ModelTable } from './shapes.ts';
import type { Entry, Tables } from './tables.ts';

/**
 * Checks the tables against each other: unknown references and ambiguous names.
 * @param resident ids of models that the catalog has in addition to those of the file
 */
export function checkTogether(tables: Tables, resident: readonly string[], faults: Faults): void {
  if (tables.database !== undefined && tables.databaseEnv !== undefined)
    faults.add(['database_env'], 'database is set too; keep one of the two');
  checkProviders(tables, faults);
  checkModels(tables, faults);
  const ids = [...tables.named.models, ...resident];
  checkAliases(tables, ids, faults);
  checkFallbacks(tables, ids, faults);
  checkByok(tables, faults);
  checkSecrets(tables, faults);
}

function checkProviders({ providers, byok }: Tables, faults: Faults): void {
  for (const { path, value, twice } of withTwice(providers, ({ id }) => id)) {
    const { id, wire, access, api_key_env: env, api_key_file: file, base_url: url } = value;
    if (twice) faults.add([...path, 'id'], `'${id}' is the id of an earlier provider, too`);
    if (id === 'local')
      faults.add([...path, 'id'], "'local' is the host's own resident model; choose another id");
    if (Array.isArray(url) && url.length > 1 && wire !== 'lathe')
      faults.add([...path, 'base_url'], 'only the wire lathe supports several URLs; name one URL');
    if (env !== undefined && file !== undefined)
      faults.add([...path, 'api_key_file'], 'api_key_env is set too; keep one of the two');
    const keyed = env !== undefined || file !== undefined;
    if (access === 'byok' && keyed)
      faults.add([...path, 'access'], '"byok" uses callers\' keys only; remove api_key_env and api_key_file');
    if (access === 'byok' && !byok.some((one) => one.value.id === id))
      faults.add(
        [...path, 'access'],
        `"byok" needs a table [byok.${id}], so that callers may store their keys`,
      );
    if (access === undefined && !keyed && !needsNoKey(wire, url))
      faults.add(
        path,
        'needs api_key_env = "NAME" or api_key_file = "PATH"; or access = "byok" if only callers\' own keys are used, or access = "house" if the provider needs no key',
      );
  }
}

/** Self-hosted servers usually need no key. */
const needsNoKey = (wire: string, url: string | readonly string[]): boolean =>
  wire === 'lathe' || [url].flat().every((one) => one.startsWith('http://'));

function checkModels({ models, named }: Tables, faults: Faults): void {
  for (const { path, value, twice } of withTwice(models, ({ id }) => id)) {
    const { id, provider, caps, context_window: window, max_output_tokens: most } = value;
    const at = (member: string) => [...path, member];
    if (twice) faults.add(at('id'), `'${id}' is the id of an earlier model, too`);
    const misread = misreading(value, models);
    if (misread !== undefined) faults.add(at('id'), `'${id}' would be read as ${misread}; choose another id`);
    if (!named.providers.includes(provider))
      faults.add(at('provider'), `there is no provider '${provider}'${near(provider, named.providers)}`);
    const answers = caps.includes('chat') || caps.includes('completions');
    if (!answers && !caps.includes('embeddings'))
      faults.add(at('caps'), 'needs one of chat, completions and embeddings');
    for (const member of ['out_usd_per_mtok', 'max_output_tokens'] as const)
      if (answers && value[member] === undefined)
        faults.add(at(member), 'is missing; a model that answers has one');
    if (most !== undefined && most > window)
      faults.add(at('max_output_tokens'), `must not be more than context_window, ${window}; got ${most}`);
    if (value.long_context && value.long_context.over >= window)
      faults.add(
        [...at('long_context'), 'over'],
        `must be less than context_window, ${window}; got ${value.long_context.over}`,
      );
    if (value.embedding_dimensions !== undefined && !caps.includes('embeddings'))
      faults.add(at('embedding_dimensions'), 'belongs to models with the capability embeddings');
    if (value.efforts !== undefined && !caps.includes('reasoning'))
      faults.add(at('efforts'), 'belongs to models with the capability reasoning');
  }
}

/** What else a request could mean by this model id; undefined when it is unambiguous. */
function misreading({ id, provider }: ModelTable, models: readonly Entry<ModelTable>[]): string | undefined {
  if (endpointModel(id)) return "a model of an endpoint 'kind:slug'";
  const inside = namespaced(id);
  if (inside?.provider === cloudProvider) return `a deployment of a caller's own ${cloudProvider} resource`;
  const other = models.find(({ value }) => value.provider === inside?.provider && value.id === inside.model);
  return (
    other &&
    `the model '${other.value.id}' of the provider '${other.value.provider}' (${provider} has this one)`
  );
}

function checkAliases({ aliases }: Tables, ids: readonly string[], faults: Faults): void {
  for (const { path, value } of aliases) {
    const { name, to } = value;
    if (ids.includes(name)) faults.add(path, `would hide the model of the same id; choose another name`);
    if (ids.includes(to)) continue;
    if (aliases.some((other) => other.value.name === to))
      faults.add(path, `'${to}' is an alias itself; name the model that it refers to`);
    else faults.add(path, `there is no model '${to}'${near(to, ids)}`);
  }
}

function checkFallbacks(
  { fallbacks, models, aliases }: Tables,
  ids: readonly string[],
  faults: Faults,
): void {
  const capsOf = new Map(models.map(({ value }) => [value.id, value.caps]));
  const unknown = (id: string) =>
    aliases.some(({ value }) => value.name === id)
      ? `'${id}' is an alias; name the model that it refers to`
      : `there is no model '${id}'${near(id, ids)}`;
  for (const { path, value, twice } of withTwice(fallbacks, ({ model }) => model)) {
    const { model, to } = value;
    if (!ids.includes(model)) faults.add([...path, 'model'], unknown(model));
    if (twice) faults.add([...path, 'model'], `'${model}' has fallbacks already; name all of them there`);
    for (const [index, other] of to.entries()) {
      const at = [...path, 'to', index];
      if (!ids.includes(other)) faults.add(at, unknown(other));
      else if (other === model) faults.add(at, `'${model}' cannot be its own fallback`);
      else if (to.indexOf(other) < index) faults.add(at, `'${other}' is named twice`);
      const caps = capsOf.get(model) ?? [];
      // Caching affects the price only, and most requests to a chat model are chats.
      const optional = caps.includes('chat') ? ['caching', 'completions'] : ['caching'];
      const lacks = caps.filter(
        (cap) => !optional.includes(cap) && capsOf.get(other)?.includes(cap) === false,
      );
      if (lacks.length > 0)
        faults.add(
          at,
          `'${other}' lacks ${lacks.join(', ')}, which '${model}' has, so it cannot be its fallback`,
        );
    }
  }
}

function checkByok({ byok, providers, named, secrets }: Tables, faults: Faults): void {
  for (const { path, value } of byok) {
    const { id, wire, base_url: url, host_suffixes: suffixes, base_path: basePath } = value;
    const provider = providers.find((one) => one.value.id === id)?.value;
    const cloud = id === cloudProvider;
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
    if (!provider && !cloud && !named.providers.includes(id)) {
      if (wire === undefined)
        faults.add(
          path,
          `needs wire = "...", since there is no provider '${id}'${near(id, named.providers)}`,
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

function checkSecrets({ secrets }: Tables, faults: Faults): void {
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
const withTwice = <T>(entries: readonly Entry<T>[], name: (value: T) => string) =>
  entries.map((entry, index) => ({
    ...entry,
    twice: entries.slice(0, index).some((earlier) => name(earlier.value) === name(entry.value)),
  }));

const near = (name: string, known: readonly string[]): string =>
  didYouMean(name, known, (found) => `'${found}'`);
