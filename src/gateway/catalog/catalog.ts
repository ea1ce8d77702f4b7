import type { ByokCredential, Resolution } from '../access/types.ts';
import type { GatewayConfig } from '../config/types.ts';
import { WireError, invalidRequest } from '../../wires/core/error.ts';
import type { KeyRow } from '../ledger/types.ts';
import { nearestWord } from '../../words/nearest.ts';
import { cloudDeploymentModel, endpointModel, deploymentPattern } from './byok-models.ts';
import { cloudProviderId, parseEndpointModel, parseNamespacedName, residentAlias } from './model-names.ts';
import { type Candidate, type Model, servedModels } from './types.ts';

/** Looks up the caller's own credential for a provider or an endpoint `kind:slug`. */
export type CredentialLookup = (provider: string) => Promise<ByokCredential | undefined>;

/** What determines which models a caller can use. */
interface CatalogScope {
  /** Ids of the models that the key may use; undefined: all. */
  readonly models: KeyRow['models'];
  readonly findCredential: CredentialLookup;
}

export interface ResolveOptions extends CatalogScope {
  /** Fallback models that the request names, in order of preference. */
  readonly fallbacks: readonly string[];
}

interface ResolvedModel {
  readonly model: Model;
  /** One for each deployment that the caller may use; at least one. */
  readonly candidates: readonly Candidate[];
  readonly isAlias: boolean;
}

interface CatalogEntry {
  readonly model: Model;
  readonly isAlias: boolean;
  /** Set where the name is `provider/id`: only deployments of that provider. */
  readonly provider?: string;
}

const maxFallbacks = 3;
const fallbackHeader = 'x-svc-fallback-models';

type CatalogConfig = Pick<GatewayConfig, 'models' | 'aliases' | 'fallbacks' | 'byok'>;

/** The model catalog: resolves the names in requests to models and credentials. */
export class Catalog {
  #models: ReadonlyMap<string, Model> = new Map();
  readonly #local: () => readonly Model[];
  #config: CatalogConfig;

  /** @param local lists the models that are loaded in this process; a configured model with the same id takes precedence */
  constructor(config: CatalogConfig, local: () => readonly Model[] = () => []) {
    this.#config = config;
    this.#local = local;
    this.replace(config);
  }

  /** Resolves names by another configuration from now on. What was resolved keeps its models and prices. */
  replace(config: CatalogConfig): void {
    this.#models = new Map(config.models.map((model) => [model.id, model]));
    this.#config = config;
  }

  /** All models of the public catalog. */
  list(): readonly Model[] {
    return [...this.#models.values(), ...this.#local().filter(({ id }) => !this.#models.has(id))];
  }

  #getModel(id: string): Model | undefined {
    return this.#models.get(id) ?? this.#local().find((model) => model.id === id);
  }

  /** The models that a caller can use, without the caller's own deployments and endpoints. */
  async listFor(models: KeyRow['models'], findCredential: CredentialLookup): Promise<Model[]> {
    const [all, providers] = [this.list(), await this.#findByokProviders(findCredential)];
    return [...all.filter(({ id }) => inScope(id, models)), ...this.#scopedAliases(models)].filter((model) =>
      servedModels(model).some(({ provider }) => provider.access === 'house' || providers.has(provider.id)),
    );
  }

  /** The aliases that a key may use although it may not use their models by their ids, as models of that id. */
  #scopedAliases(models: KeyRow['models']): Model[] {
    return (models ?? []).flatMap((name) => {
      const entry = this.#findInCatalog(name);
      return entry?.isAlias && !inScope(entry.model.id, models) ? [{ ...entry.model, id: name }] : [];
    });
  }

  /**
   * Resolves a requested name to candidates, in order of preference: the requested model, the fallbacks of the request, the
   * fallbacks of the configuration. Each model has its deployments in the order of the file. Capabilities are not checked
   * here.
   * @throws WireError 404 `model_not_found`; 400 when a fallback of the request is unknown
   */
  async resolve(requested: string, options: ResolveOptions): Promise<Resolution> {
    const found = await this.#find(requested, options);
    if (!found) throw await this.#notFound(requested, options);
    const { model, isAlias } = found;
    // Most requests have no fallbacks, and each `await` costs a turn of the microtask queue.
    const chain = [found];
    if (options.fallbacks.length > 0) chain.push(...(await this.#requestFallbacks(options)));
    if (this.#config.fallbacks.has(model.id))
      chain.push(...(await this.#configuredFallbacks(model, options)));
    const distinct = chain.filter(
      (one, place) => chain.findIndex((other) => other.model.id === one.model.id) === place,
    );
    return {
      requested,
      model,
      candidates: distinct.flatMap(({ candidates }) => candidates),
      reason: isAlias ? 'routed' : 'as_requested',
    };
  }

  /** Resolves a name for a caller; undefined when there is no such model that the caller may use. */
  async #find(name: string, scope: CatalogScope): Promise<ResolvedModel | undefined> {
    const catalogEntry = this.#findInCatalog(name);
    if (catalogEntry) {
      const { model } = catalogEntry;
      if (!inScope(model.id, scope.models) && !(catalogEntry.isAlias && inScope(name, scope.models)))
        return undefined;
      const candidates = await this.#candidates(catalogEntry, scope);
      return candidates.length > 0 ? { model, candidates, isAlias: catalogEntry.isAlias } : undefined;
    }
    if (!inScope(name, scope.models)) return undefined;
    const found = await this.#findByokModel(name, scope);
    return found && { model: found.model, candidates: [found], isAlias: false };
  }

  /** Finds a catalog model by id, alias or `provider/id`. */
  #findInCatalog(name: string): CatalogEntry | undefined {
    const exact = this.#getModel(name);
    if (exact) return { model: exact, isAlias: false };
    const routed =
      this.#getModel(this.#config.aliases.get(name) ?? '') ??
      (name === residentAlias ? this.#local()[0] : undefined);
    if (routed) return { model: routed, isAlias: true };
    const parsed = parseNamespacedName(name);
    const model = parsed && this.#getModel(parsed.model);
    const isServed = model && servedModels(model).some(({ provider }) => provider.id === parsed?.provider);
    return isServed ? { model, isAlias: false, provider: parsed.provider } : undefined;
  }

  /**
   * The deployments that the caller may use. Where the caller has a credential of its own for one of them, the operator's are
   * left out, so that the caller is not charged.
   */
  async #candidates({ model, provider }: CatalogEntry, scope: CatalogScope): Promise<Candidate[]> {
    const { routing } = model;
    if (!routing) {
      const credential = await this.#credential(model, scope);
      return credential ? [{ model, credential }] : [];
    }
    const deployments = routing.deployments.filter(
      (one) => provider === undefined || one.model.provider.id === provider,
    );
    const found = await Promise.all(
      deployments.map(async (deployment): Promise<Candidate | undefined> => {
        const credential = await this.#credential(deployment.model, scope);
        return credential && { model: deployment.model, credential, route: { routing, deployment } };
      }),
    );
    const usable = found.filter((one) => one !== undefined);
    const own = usable.filter(({ credential }) => credential.kind === 'byok');
    return own.length > 0 ? own : usable;
  }

  /** The caller's own credential if there is one. The operator's is then not used, so that the caller is not charged. */
  async #credential(
    model: Model,
    { findCredential }: CatalogScope,
  ): Promise<Candidate['credential'] | undefined> {
    const { id, access, apiKey } = model.provider;
    const found = this.#config.byok.some((one) => one.id === id) ? await findCredential(id) : undefined;
    if (found) return { kind: 'byok', provider: id, apiKey: found.apiKey, ...baseUrlField(found.baseUrl) };
    return access === 'house' ? { kind: 'house', apiKey } : undefined;
  }

  /** Finds a deployment of the caller's cloud resource, or a model of an endpoint registered for the account. */
  async #findByokModel(name: string, { findCredential }: CatalogScope): Promise<Candidate | undefined> {
    const parsed = parseEndpointModel(name);
    if (parsed) {
      const endpoint = await findCredential(parsed.endpoint);
      return endpoint?.baseUrl === undefined ? undefined : endpointModel(name, parsed.model, endpoint);
    }
    const cloud = this.#config.byok.find(({ id }) => id === cloudProviderId);
    const parsedName = parseNamespacedName(name);
    const deployment = parsedName?.provider === cloudProviderId ? parsedName.model : name;
    if (!cloud || !deploymentPattern.test(deployment)) return undefined;
    const resource = await findCredential(cloudProviderId);
    return resource && cloudDeploymentModel(name, deployment, { cloud, resource });
  }

  async #requestFallbacks(options: ResolveOptions): Promise<ResolvedModel[]> {
    const names = options.fallbacks;
    if (names.length > maxFallbacks)
      throw invalidRequest(
        `${fallbackHeader} names ${names.length} models; name at most ${maxFallbacks}, separated by commas.`,
        { param: fallbackHeader },
      );
    const found = await Promise.all(names.map((name) => this.#find(name, options)));
    const unknown = names.filter((_, index) => !found[index]);
    if (unknown.length === 0) return found.filter((one) => one !== undefined);
    const hints = await Promise.all(unknown.map((name) => this.#explainMissing(name, options)));
    throw invalidRequest(`${fallbackHeader}: ${hints.join(' ')}`, {
      param: fallbackHeader,
      code: 'model_not_found',
    });
  }

  /** Fallbacks of the configuration. Those that the caller cannot use are skipped. */
  async #configuredFallbacks(model: Model, options: ResolveOptions): Promise<ResolvedModel[]> {
    const names = this.#config.fallbacks.get(model.id) ?? [];
    const found = await Promise.all(names.map((name) => this.#find(name, options)));
    return found.filter((one) => one !== undefined);
  }

  async #notFound(name: string, scope: CatalogScope): Promise<WireError> {
    return new WireError(404, 'invalid_request_error', await this.#explainMissing(name, scope), {
      code: 'model_not_found',
      param: 'model',
    });
  }

  /** Explains in a sentence or two why the caller has no such model. */
  async #explainMissing(name: string, scope: CatalogScope): Promise<string> {
    const shown = `'${name.slice(0, 200).toWellFormed()}'`;
    const known = this.#findInCatalog(name);
    if (known && !inScope(known.model.id, scope.models) && !(known.isAlias && inScope(name, scope.models)))
      return `This API key may not use the model ${shown}.`;
    if (known) {
      const provider = known.provider ?? known.model.provider.id;
      return `The model ${shown} needs a key of your own for the provider ${provider}: store one with PUT /v1/keys/${provider}.`;
    }
    const visible = (await this.listFor(scope.models, scope.findCredential)).map(({ id }) => id);
    const near = nearestWord(name, [...visible, ...this.#config.aliases.keys()]);
    const hint = near === undefined ? '' : ` Did you mean '${near}'?`;
    return `There is no model ${shown} in your catalog.${hint} GET /v1/models lists the available models.`;
  }

  /** Ids of the catalog's providers for which the caller has a credential. */
  async #findByokProviders(findCredential: CredentialLookup): Promise<ReadonlySet<string>> {
    const ids = this.#config.byok.map(({ id }) => id);
    const used = new Set(
      this.list().flatMap((model) => servedModels(model).map(({ provider }) => provider.id)),
    );
    const candidateIds = ids.filter((id) => used.has(id));
    const found = await Promise.all(candidateIds.map(findCredential));
    return new Set(candidateIds.filter((_, index) => found[index]));
  }
}

const inScope = (id: string, models: KeyRow['models']): boolean => models?.includes(id) ?? true;

const baseUrlField = (baseUrl: string | undefined) => (baseUrl === undefined ? {} : { baseUrl });
