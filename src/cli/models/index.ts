import type { Command } from '../../config/commands.ts';
import type { Options } from '../../config/options.ts';
import { readStoredDigest } from '../../pull/stored-digest.ts';
import { defaultDataDir, modelsDir, openDataDir } from '../data-dir.ts';
import { findPulled, locateModel, shortNames, unknownModel } from '../model-location.ts';
import type { CliContext } from '../cli-context.ts';
import { listModels } from './list.ts';
import { locateInRepository, type PulledModel, pulledModels } from './pulled-models.ts';
import { removeModel } from './remove.ts';
import { type Digest, showModel } from './show.ts';
import { type VerifyTarget, verifyModels } from './verify.ts';

type ModelsCommand = Extract<Command, { verb: 'models' }>;

/** `models list`, `show`, `rm` and `verify`. */
export async function manageModels(command: ModelsCommand, options: Options, cli: CliContext): Promise<void> {
  const dataDir = await openDataDir(options.data_dir ?? defaultDataDir(cli.env, cli.home));
  const folder = modelsDir(dataDir.path);
  const pulled = await pulledModels(folder);
  const directories = { packageRoot: cli.packageRoot, dataDir: dataDir.path };
  const { action, name, json } = command;
  switch (action) {
    case 'list':
      return await listModels(pulled, { cli, json, dataDir: dataDir.path });
    case 'show': {
      const { location } = await locateModel(name, directories);
      const found = pulled.find(({ path }) => path === location);
      const digest = await findDigest(folder, found);
      return await showModel({ name: found?.name ?? name ?? '', location, digest }, { cli, json });
    }
    case 'rm': {
      const found = findPulled(pulled, name ?? '');
      if (!found) throw unknownModel(name ?? '', shortNames(pulled));
      return await removeModel(folder, found, cli);
    }
    case 'verify': {
      const targets =
        name === undefined ? pulled.map((one) => toVerifyTarget(folder, one)) : [await findTarget(name)];
      return await verifyModels(targets, { cli, json, quiet: options.quiet ?? false });
    }
  }

  async function findTarget(wanted: string): Promise<VerifyTarget> {
    const { location } = await locateModel(wanted, directories);
    const found = pulled.find(({ path }) => path === location);
    return found ? toVerifyTarget(folder, found) : { name: wanted, location };
  }
}

const toVerifyTarget = (folder: string, { name, path, files, unfinished }: PulledModel): VerifyTarget => ({
  name,
  location: path,
  pulled: { folder, files, unfinished },
});

/** The digest that the last verification stored, or a remark how to get it. */
async function findDigest(folder: string, model: PulledModel | undefined): Promise<Digest> {
  if (!model) return { remark: 'not stored for models outside the data directory (models verify prints it)' };
  const { repositoryFolder, paths } = locateInRepository(folder, model.files);
  const found = await readStoredDigest(repositoryFolder, paths);
  return found ?? { remark: 'not computed yet (models verify computes and stores it)' };
}
