import type { Store, Tx } from '../../store/index.ts';
import { AgentError } from '../errors.ts';
import type { AgentStore, Toolbox } from '../services.ts';
import type { AgentSpec } from '../shapes/agent-spec.ts';
import { parseAgentSpec } from './parse-agent-spec.ts';
import { defaultAgent } from './default-agent.ts';

interface StoredAgentsOptions {
  readonly store: Store;
  /** When given, a grant of an unknown tool is refused. */
  readonly tools?: Pick<Toolbox, 'catalog'>;
}

/** Agents in the database, by name. Stored as JSON as sent, including unknown members. */
export class StoredAgents implements AgentStore {
  readonly #store: Store;
  readonly #tools: Pick<Toolbox, 'catalog'> | undefined;

  constructor({ store, tools }: StoredAgentsOptions) {
    this.#store = store;
    this.#tools = tools;
  }

  /** Sorted by name; always includes `default`. */
  async list(): Promise<AgentSpec[]> {
    const rows = await this.#store.read((db) => db.selectFrom('agents').select(['name', 'spec']).execute());
    const stored = rows.map(({ spec }) => JSON.parse(spec) as AgentSpec);
    const all = rows.some(({ name }) => name === defaultAgent.name) ? stored : [defaultAgent, ...stored];
    return all.sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  async get(name: string): Promise<AgentSpec> {
    const row = await this.#store.read((db) =>
      db.selectFrom('agents').select('spec').where('name', '=', name).executeTakeFirst(),
    );
    if (row) return JSON.parse(row.spec) as AgentSpec;
    if (name === defaultAgent.name) return defaultAgent;
    throw agentNotFound(name);
  }

  /** @throws AgentError invalid; conflict when the name is taken */
  async create(input: Readonly<Record<string, unknown>>, by: string): Promise<AgentSpec> {
    const spec = await this.#validate(input);
    const { name } = spec;
    const created = await this.#store.transaction(async (tx) => {
      const now = this.#store.time();
      const row = { name, spec: JSON.stringify(spec), created_at: now, updated_at: now };
      const insert = tx
        .insertInto('agents')
        .values(row)
        .onConflict((one) => one.column('name').doNothing());
      const { numInsertedOrUpdatedRows } = await insert.executeTakeFirst();
      if (numInsertedOrUpdatedRows !== 1n) return false;
      await this.#journalAct(tx, 'agent.create', name, by);
      return true;
    });
    if (created) return spec;
    const message = `There is an agent '${name}' already; PUT /agent/v1/agents/${name} replaces it.`;
    throw new AgentError('conflict', 'name_exists', message);
  }

  /** Creates or replaces an agent. @throws AgentError invalid */
  async put(name: string, input: Readonly<Record<string, unknown>>, by: string): Promise<AgentSpec> {
    const spec = await this.#validate(input, name);
    await this.#store.transaction(async (tx) => {
      const now = this.#store.time();
      const text = JSON.stringify(spec);
      await tx
        .insertInto('agents')
        .values({ name, spec: text, created_at: now, updated_at: now })
        .onConflict((one) => one.column('name').doUpdateSet({ spec: text, updated_at: now }))
        .execute();
      await this.#journalAct(tx, 'agent.put', name, by);
    });
    return spec;
  }

  /** Deleting a stored `default` restores the built-in one. @throws AgentError not_found */
  async delete(name: string, by: string): Promise<void> {
    const deleted = await this.#store.transaction(async (tx) => {
      const { numDeletedRows } = await tx.deleteFrom('agents').where('name', '=', name).executeTakeFirst();
      if (numDeletedRows === 0n) return false;
      await this.#journalAct(tx, 'agent.delete', name, by);
      return true;
    });
    if (!deleted) throw agentNotFound(name);
  }

  /** @param name the name that the agent must have */
  async #validate(input: Readonly<Record<string, unknown>>, name?: string): Promise<AgentSpec> {
    const names = (await this.#tools?.catalog())?.map((tool) => tool.name);
    const { spec, faults = [] } = parseAgentSpec(input, names);
    const sentName = input['name'];
    const nameFaults =
      name !== undefined && typeof sentName === 'string' && sentName !== name
        ? [
            {
              path: 'name',
              message: `expected '${name}', as the path names it, got '${sentName.slice(0, 80)}'`,
            },
          ]
        : [];
    if (spec && nameFaults.length === 0) return spec;
    const allFaults = [
      ...nameFaults,
      ...faults.filter(({ path }) => nameFaults.length === 0 || path !== 'name'),
    ];
    const message = allFaults
      .map((fault) => (fault.path === '' ? fault.message : `${fault.path}: ${fault.message}`))
      .join('; ');
    const sentence = message.endsWith('?') ? message : `${message}.`;
    throw new AgentError('invalid', 'invalid_agent', sentence, { faults: allFaults });
  }

  async #journalAct(tx: Tx, verb: string, target: string, by: string): Promise<void> {
    await this.#store.appendAct(tx, { verb, target, by, outcome: 'applied' });
  }
}

const agentNotFound = (name: string) =>
  new AgentError(
    'not_found',
    'not_found',
    `There is no stored agent '${name.slice(0, 80)}'; GET /agent/v1/agents lists them.`,
  );
