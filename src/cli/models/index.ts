import type { Command } from '../../config/commands.ts';
import type { Options } from '../../config/options.ts';
import { notedDigestOf } from '../../pull/noted-digest.ts';
import { defaultDataDir, modelsDir, openDataDir } from '../data-dir.ts';
import { findPulled, locateModel, shortNames, unknownModel } from '../model-location.ts';
import type { World } from '../world.ts';
import { listModels } from './list.ts';
import { homeOf, type PulledModel, pulledModels } from './pulled.ts';
import { removeModel } from './remove.ts';
import { type Digest, showModel } from './show.ts';
import { type Checked, verifyModels } from './verify.ts';

type ModelsCommand = Extract<Command, { verb: 'models' }>;

/** `models list`, `show`, `rm` and `verify`. */
export async function manageModels(command: ModelsCommand, options: Options, world: World): Promise<void> {
  const dataDir = await openDataDir(options.data_dir ?? defaultDataDir(world.env, world.home));
  const folder = modelsDir(dataDir.path);
  const pulled = await pulledModels(folder);
  const places = { packageRoot: world.packageRoot, dataDir: dataDir.path };
  const { action, name, json } = command;
  switch (action) {
    case 'list':
      return await listModels(pulled, { world, json, dataDir: dataDir.path });
    case 'show': {
      const { location } = await locateModel(name, places);
      const found = pulled.find(({ path }) => path === location);
      const digest = await digestOf(folder, found);
      return await showModel({ name: found?.name ?? name ?? '', location, digest }, { world, json });
    }
    case 'rm': {
      const found = findPulled(pulled, name ?? '');
      if (!found) throw unknownModel(name ?? '', shortNames(pulled));
      return await removeModel(folder, found, world);
    }
    case 'verify': {
      const checked = name === undefined ? pulled.map((one) => checkedOf(folder, one)) : [await named(name)];
      return await verifyModels(checked, { world, json, quiet: options.quiet ?? false });
    }
  }

  async function named(wanted: string): Promise<Checked> {
    const { location } = await locateModel(wanted, places);
    const found = pulled.find(({ path }) => path === location);
    return found ? checkedOf(folder, found) : { name: wanted, location };
  }
}

const checkedOf = (folder: string, { name, path, files, unfinished }: PulledModel): Checked => ({
  name,
  location: path,
  pulled: { folder, files, unfinished },
});

/** The digest that the last verification stored, or a remark how to get it. */
async function digestOf(folder: string, model: PulledModel | undefined): Promise<Digest> {
  if (!model) return { remark: 'not stored for models outside the data directory (models verify prints it)' };
  const { home, paths } = homeOf(folder, model.files);
  const found = await notedDigestOf(home, paths);
  return found ?? { remark: 'not computed yet (models verify computes and stores it)' };
}
