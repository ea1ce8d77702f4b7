import type { Selectable } from 'kysely';
import type { Store, Tables } from '../../store/index.ts';
import { AgentError } from '../errors.ts';
import type { Agents, Toolbox } from '../services.ts';
import type { BuiltinWorkflow, EnsembleRecord } from '../shapes/ensemble.ts';
import type { Consent, LintReport } from '../shapes/lint-report.ts';
import type { Builtins } from './builtins.ts';
import { type Ensemble, reservedNames } from './definition/ensemble.ts';
import { type Linted, lintEnsemble } from './definition/lint.ts';
import { digestOf } from './digest.ts';
import { stamped } from './stamp.ts';

/** Thrown for a source with lint errors, which is not stored. */
export class LintRefusal extends Error {
  readonly report: LintReport;
  constructor(report: LintReport) {
    super(report.errors[0]?.message ?? 'the workflow does not lint');
    this.name = 'LintRefusal';
    this.report = report;
  }
}

interface Parts {
  readonly store: Store;
  readonly builtins: Builtins;
  readonly toolbox: Pick<Toolbox, 'catalog'>;
  readonly agents: Agents;
  /** Whether the operator allows running a workflow by this name. */
  readonly isEnabled: (name: string) => boolean;
}

/** A workflow that can be started. */
export interface Callable {
  readonly name: string;
  readonly source: string;
  readonly digest: string;
}

type Row = Selectable<Tables['workflows']>;

/** Stored workflows. Sources are stored byte for byte, and stay even if a newer host finds errors in them. */
export class Ensembles {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  async list(): Promise<EnsembleRecord[]> {
    const { store } = this.#parts;
    const rows = await store.read((db) => db.selectFrom('workflows').selectAll().orderBy('name').execute());
    return rows.map((row) => this.#record(row));
  }

  /** @throws AgentError not_found */
  async get(name: string): Promise<EnsembleRecord> {
    const row = await this.#row(name);
    if (row === undefined) throw unknownWorkflow();
    return this.#record(row);
  }

  /** The workflow to run by this name: a stored one, or else a built-in; undefined when it is not enabled. */
  async callable(name: string): Promise<Callable | undefined> {
    if (!this.#parts.isEnabled(name)) return undefined;
    const found = (await this.#row(name)) ?? this.#parts.builtins.get(name);
    return found && { name, source: found.source, digest: found.digest };
  }

  async builtins(): Promise<BuiltinWorkflow[]> {
    const { builtins, toolbox, isEnabled, store } = this.#parts;
    return builtins.list(await toolbox.catalog(), isEnabled, store.now());
  }

  /** @throws LintError; AgentError conflict */
  async create(source: string, by: string): Promise<EnsembleRecord> {
    const { ensemble } = await this.#accepted(source);
    return this.#add(source, ensemble, 'workflow.create', by);
  }

  /** @throws LintError, also when the source has another name */
  async put(name: string, source: string, by: string): Promise<EnsembleRecord> {
    const { store } = this.#parts;
    const { ensemble } = await this.#accepted(source, name);
    const row = rowOf(source, ensemble, store.time());
    const { name: _, created_at: __, ...changed } = row;
    const stored = await store.transaction(async (tx) => {
      const written = await tx
        .insertInto('workflows')
        .values(row)
        .onConflict((conflict) => conflict.column('name').doUpdateSet(changed))
        .returningAll()
        .executeTakeFirstOrThrow();
      await store.act(tx, {
        verb: 'workflow.put',
        target: name,
        by,
        outcome: 'applied',
        details: details(row),
      });
      return written;
    });
    return this.#record(stored);
  }

  /** @throws AgentError not_found */
  async delete(name: string, by: string): Promise<void> {
    const { store } = this.#parts;
    await store.transaction(async (tx) => {
      const gone = await tx
        .deleteFrom('workflows')
        .where('name', '=', name)
        .returningAll()
        .executeTakeFirst();
      if (gone === undefined) throw unknownWorkflow();
      await store.act(tx, {
        verb: 'workflow.delete',
        target: name,
        by,
        outcome: 'applied',
        details: details(gone),
      });
    });
  }

  /**
   * @param source linted instead of the stored source
   * @throws AgentError not_found when there is neither
   */
  async lint(name: string, source?: string): Promise<LintReport & { consent?: Consent }> {
    const { report, consent } = await this.#lint(source ?? (await this.get(name)).source);
    return consent === undefined ? report : { ...report, consent };
  }

  /** @throws AgentError not_found: no such built-in; conflict: the target is stored already */
  async fork(builtin: string, as: string | undefined, by: string): Promise<EnsembleRecord> {
    const original = this.#parts.builtins.get(builtin);
    if (original === undefined) {
      const message = `There is no such built-in workflow; GET /agent/v1/workflows/builtins lists them.`;
      throw new AgentError('not_found', 'unknown_builtin', message);
    }
    const name = as ?? builtin;
    if (reservedNames.includes(name)) {
      const message = `must not be one of ${reservedNames.join(', ')}`;
      throw new AgentError('invalid', 'invalid_value', `as: ${message}.`, {
        faults: [{ path: 'as', message }],
      });
    }
    const source = stamped(original.source, { name, origin: original.origin });
    const { ensemble } = await this.#accepted(source);
    return this.#add(source, ensemble, 'workflow.fork', by);
  }

  async #add(source: string, ensemble: Ensemble, verb: string, by: string): Promise<EnsembleRecord> {
    const { store } = this.#parts;
    const row = rowOf(source, ensemble, store.time());
    await store.transaction(async (tx) => {
      const added = await tx
        .insertInto('workflows')
        .values(row)
        .onConflict((conflict) => conflict.column('name').doNothing())
        .returning('name')
        .executeTakeFirst();
      if (added === undefined) {
        const message = `There is a workflow '${row.name}' already; PUT /agent/v1/workflows/${row.name} replaces it.`;
        throw new AgentError('conflict', 'workflow_exists', message);
      }
      await store.act(tx, { verb, target: row.name, by, outcome: 'applied', details: details(row) });
    });
    return this.#record(row);
  }

  /** @param name name that the source must have */
  async #accepted(source: string, name?: string): Promise<{ ensemble: Ensemble }> {
    const { report, ensemble } = await this.#lint(source, name);
    if (ensemble === undefined) throw new LintRefusal(report);
    return { ensemble };
  }

  async #lint(source: string, name?: string): Promise<Linted> {
    const { toolbox, agents, store } = this.#parts;
    return lintEnsemble(source, {
      tools: await toolbox.catalog(),
      agent: (one) =>
        agents.get(one).catch((error: unknown) => {
          if (error instanceof AgentError && error.kind === 'not_found') return undefined;
          throw error;
        }),
      now: store.now(),
      ...(name === undefined ? {} : { name }),
    });
  }

  #row(name: string): Promise<Row | undefined> {
    const query = this.#parts.store.read((db) =>
      db.selectFrom('workflows').selectAll().where('name', '=', name).executeTakeFirst(),
    );
    return query;
  }

  #record({ origin, version, description, ...row }: Row): EnsembleRecord {
    return {
      ...row,
      enabled: this.#parts.isEnabled(row.name),
      ...(origin === null ? {} : { origin }),
      ...(version === null ? {} : { version }),
      ...(description === null ? {} : { description }),
    };
  }
}

const unknownWorkflow = () =>
  new AgentError(
    'not_found',
    'unknown_workflow',
    'There is no stored workflow of this name; GET /agent/v1/workflows lists them.',
  );

function rowOf(source: string, ensemble: Ensemble, time: string): Row {
  const { name, origin = null, version = null, description = null } = ensemble;
  return {
    name,
    source,
    digest: digestOf(source),
    origin,
    version,
    description,
    created_at: time,
    updated_at: time,
  };
}

const details = ({ digest }: Pick<Row, 'digest'>) => JSON.stringify({ digest });
