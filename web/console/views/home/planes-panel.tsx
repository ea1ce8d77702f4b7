import { Link } from 'wouter';
import { Panel } from '../../../ui/index.tsx';
import css from './home.module.css';
import { describePlane } from './planes.ts';

/** The planes that the host serves, with links to their views. */
export const PlanesPanel = ({ names }: { names: readonly string[] }) => (
  <Panel title="Planes" className={css['wide']}>
    <ul className={css['planes']}>
      {names.map((name) => {
        const { description, path } = describePlane(name);
        return (
          <li key={name}>
            {path === undefined ? (
              <strong>{name}</strong>
            ) : (
              <Link href={path}>
                <strong>{name}</strong>
              </Link>
            )}{' '}
            {description}
          </li>
        );
      })}
    </ul>
  </Panel>
);
