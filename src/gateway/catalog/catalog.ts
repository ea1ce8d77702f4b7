import type { OwnCredential, Resolution } from '../access/types.ts';
import type { GatewayConfig } from '../config/types.ts';
import { WireError, invalidRequest } from '../../wires/core/error.ts';
import type { KeyRow } from '../ledger/types.ts';
import { nearest } from '../../words/nearest.ts';
import { cloudDeployment, endpointsModel, deploymentForm } from './callers-own.ts';
import { cloudProvider, endpointModel, namespaced, residentName } from './names.ts';
import type { Candidate, Model } from './types.ts';

/** Looks up the caller's own credential for a provider or an endpoint `kind:slug`. */
export type OwnCredentials = (provider: string) => Promise<OwnCredential | undefined>;

/** What determines which models a caller can use. */
interface Asker {
  /** Ids of the models that the key may use; undefined: all. */
  readonly models: KeyRow['models'];
  readonly own: OwnCredentials;
}

export interface Asking extends Asker {
  /** Fallback models that the request names, in order of preference. */
  readonly fallbacks: readonly string[];
}

type Named = {
  readonly model: Model;
  readonly credential: Candidate['credential'];
  readonly alias: boolean;
};

const mostFallbacks = 3;
const fallbackHeader = 'x-svc-fallback-models';

/** The model catalog: resolves the names in requests to models and credentials. */
export class Catalog {
  readonly #models: ReadonlyMap<string, Model>;
  readonly #local: () => readonly Model[];
  readonly #config: Pick<GatewayConfig, 'aliases' | 'fallbacks' | 'byok'>;

  /** @param local lists the models that are loaded in this process; a configured model with the same id takes precedence */
  constructor(
    config: Pick<GatewayConfig, 'models' | 'aliases' | 'fallbacks' | 'byok'>,
    local: () => readonly Model[] = () => [],
  ) {
    this.#models = new Map(config.models.map((model) => [model.id, model]));
    this.#config = config;
    this.#local = local;
  }

  /** All models of the public catalog. */
  list(): readonly Model[] {
    return [...this.#models.values(), ...this.#local().filter(({ id }) => !this.#models.has(id))];
  }

  #get(id: string): Model | undefined {
    return this.#models.get(id) ?? this.#local().find((model) => model.id === id);
  }

  /** The models that a caller can use, without the caller's own deployments and endpoints. */
  async listFor(models: KeyRow['models'], own: OwnCredentials): Promise<Model[]> {
    const [all, providers] = [this.list(), await this.#ownProviders(own)];
    return all.filter(
      ({ id, provider }) =>
        inScope(id, models) && (provider.access === 'house' || providers.has(provider.id)),
    );
  }

  /**
   * Resolves a requested name to candidates, in order of preference: the requested model, the fallbacks of the request, the
   * fallbacks of the configuration. Capabilities are not checked here.
   * @throws WireError 404 `model_not_found`; 400 when a fallback of the request is unknown
   */
  async resolve(requested: string, asking: Asking): Promise<Resolution> {
    const found = await this.#find(requested, asking);
    if (!found) throw await this.#notFound(requested, asking);
    const { model, alias } = found;
    const chain = [found, ...(await this.#named(asking)), ...(await this.#configured(model, asking))];
    const candidates = chain.filter(
      (one, place) => chain.findIndex((other) => other.model.id === one.model.id) === place,
    );
    return {
      requested,
      model,
      candidates: candidates.map((one) => ({ model: one.model, credential: one.credential })),
      reason: alias ? 'routed' : 'as_requested',
    };
  }

  /** Resolves a name for a caller; undefined when there is no such model that the caller may use. */
  async #find(name: string, asker: Asker): Promise<Named | undefined> {
    const known = this.#inCatalog(name);
    if (known) {
      const { model } = known;
      if (!inScope(model.id, asker.models)) return undefined;
      const credential = await this.#credential(model, asker);
      return credential && { ...known, credential };
    }
    if (!inScope(name, asker.models)) return undefined;
    const model = await this.#callersOwn(name, asker);
    return model && { ...model, alias: false };
  }

  /** Finds a catalog model by id, alias or `provider/id`. */
  #inCatalog(name: string): { readonly model: Model; readonly alias: boolean } | undefined {
    const exact = this.#get(name);
    if (exact) return { model: exact, alias: false };
    const routed =
      this.#get(this.#config.aliases.get(name) ?? '') ??
      (name === residentName ? this.#local()[0] : undefined);
    if (routed) return { model: routed, alias: true };
    const inside = namespaced(name);
    const model = this.#get(inside?.model ?? '');
    return model && model.provider.id === inside?.provider ? { model, alias: false } : undefined;
  }

  /** The caller's own credential if there is one. The operator's is then not used, so that the caller is not charged. */
  async #credential(model: Model, { own }: Asker): Promise<Candidate['credential'] | undefined> {
    const { id, access, apiKey } = model.provider;
    const found = this.#config.byok.some((one) => one.id === id) ? await own(id) : undefined;
    if (found) return { kind: 'byok', provider: id, apiKey: found.apiKey, ...located(found.baseUrl) };
    return access === 'house' ? { kind: 'house', apiKey } : undefined;
  }

  /** Finds a deployment of the caller's cloud resource, or a model of an endpoint registered for the account. */
  async #callersOwn(name: string, { own }: Asker): Promise<Omit<Named, 'alias'> | undefined> {
    const inside = endpointModel(name);
    if (inside) {
      const endpoint = await own(inside.endpoint);
      return endpoint?.baseUrl === undefined ? undefined : endpointsModel(name, inside.model, endpoint);
    }
    const cloud = this.#config.byok.find(({ id }) => id === cloudProvider);
    const space = namespaced(name);
    const deployment = space?.provider === cloudProvider ? space.model : name;
    if (!cloud || !deploymentForm.test(deployment)) return undefined;
    const resource = await own(cloudProvider);
    return resource && cloudDeployment(name, deployment, { cloud, resource });
  }

  async #named(asking: Asking): Promise<Named[]> {
    const names = asking.fallbacks;
    if (names.length > mostFallbacks)
      throw invalidRequest(
        `${fallbackHeader} names ${names.length} models; name at most ${mostFallbacks}, separated by commas.`,
        { param: fallbackHeader },
      );
    const found = await Promise.all(names.map((name) => this.#find(name, asking)));
    const unknown = names.filter((_, index) => !found[index]);
    if (unknown.length === 0) return found.filter((one) => one !== undefined);
    const hints = await Promise.all(unknown.map((name) => this.#missing(name, asking)));
    throw invalidRequest(`${fallbackHeader}: ${hints.join(' ')}`, {
      param: fallbackHeader,
      code: 'model_not_found',
    });
  }

  /** Fallbacks of the configuration. Those that the caller cannot use are skipped. */
  async #configured(model: Model, asking: Asking): Promise<Named[]> {
    const names = this.#config.fallbacks.get(model.id) ?? [];
    const found = await Promise.all(names.map((name) => this.#find(name, asking)));
    return found.filter((one) => one !== undefined);
  }

  async #notFound(name: string, asker: Asker): Promise<WireError> {
    return new WireError(404, 'invalid_request_error', await this.#missing(name, asker), {
      code: 'model_not_found',
      param: 'model',
    });
  }

  /** Explains in a sentence or two why the caller has no such model. */
  async #missing(name: string, asker: Asker): Promise<string> {
    const shown = `'${name.slice(0, 200).toWellFormed()}'`;
    const known = this.#inCatalog(name)?.model;
    if (known && !inScope(known.id, asker.models)) return `This API key may not use the model ${shown}.`;
    if (known)
      return `The model ${shown} needs a key of your own for the provider ${known.provider.id}: store one with PUT /v1/keys/${known.provider.id}.`;
    const visible = (await this.listFor(asker.models, asker.own)).map(({ id }) => id);
    const near = nearest(name, [...visible, ...this.#config.aliases.keys()]);
    const hint = near === undefined ? '' : ` Did you mean '${near}'?`;
    return `There is no model ${shown} in your catalog.${hint} GET /v1/models lists the available models.`;
  }

  /** Ids of the catalog's providers for which the caller has a credential. */
  async #ownProviders(own: OwnCredentials): Promise<ReadonlySet<string>> {
    const ids = this.#config.byok.map(({ id }) => id);
    const asked = ids.filter((id) => this.list().some(({ provider }) => provider.id === id));
    const found = await Promise.all(asked.map(own));
    return new Set(asked.filter((_, index) => found[index]));
  }
}

const inScope = (id: string, models: KeyRow['models']): boolean => models?.includes(id) ?? true;

const located = (baseUrl: string | undefined) => (baseUrl === undefined ? {} : { baseUrl });
