import { homedir } from 'node:os';
import path from 'node:path';
import { readIfExists } from '../../platform/files/read-if-exists.ts';

type Environment = Readonly<Record<string, string | undefined>>;
type Profile = Readonly<Record<string, string>>;

/**
 * Reads the profile named in AWS_PROFILE, or `default`, from the shared AWS files. Values in the credentials file take precedence over
 * those in the config file. Missing files count as empty.
 */
export async function readAwsProfile(environment: Environment): Promise<Profile> {
  const name = environment.AWS_PROFILE || 'default';
  const folder = path.join(environment.HOME || homedir(), '.aws');
  const credentials = environment.AWS_SHARED_CREDENTIALS_FILE || path.join(folder, 'credentials');
  const config = environment.AWS_CONFIG_FILE || path.join(folder, 'config');
  const [keys, settings] = await Promise.all([readIfExists(credentials), readIfExists(config)]);
  // In the config file, profile headings begin with the word `profile`, except for `default`.
  return { ...sectionOf(settings ?? '', [`profile ${name}`, name]), ...sectionOf(keys ?? '', [name]) };
}

/** Returns the values in the named sections of an INI file. Ignores indented lines, because they contain nested values. */
export function sectionOf(text: string, names: readonly string[]): Profile {
  const values: Record<string, string> = {};
  let isWanted = false;
  for (const line of text.split(/\r?\n/)) {
    const heading = /^\[\s*([^\]]*?)\s*\]/.exec(line);
    if (heading !== null) {
      isWanted = names.includes((heading[1] ?? '').replace(/\s+/g, ' '));
      continue;
    }
    const [, key, value] = /^([^\s#;=][^=]*?)\s*=\s*(.*?)\s*$/.exec(line) ?? [];
    if (isWanted && key !== undefined && value !== undefined) {
      values[key.toLowerCase()] = value.replace(/\s+[#;].*$/, '');
    }
  }
  return values;
}
