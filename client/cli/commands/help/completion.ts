import { defineCommand } from '../../command/command.ts';
import { SHELLS } from '../../completion/shells.ts';

export const completionCommand = defineCommand({
  command: 'completion <shell>',
  describe: 'Print a script that lets your shell complete commands, options, job IDs and tasks',
  positionals: { shell: { choices: SHELLS, demandOption: true, describe: 'Your shell' } },
  examples: [
    ['source <(tony-ts completion bash)', 'in ~/.bashrc'],
    ['source <(tony-ts completion zsh)', 'in ~/.zshrc, after compinit'],
    ['tony-ts completion fish > ~/.config/fish/completions/tony-ts.fish', 'once'],
  ],
  handler: async ({ shell }) => {
    const { completionScript } = await import('../../completion/scripts.ts');
    process.stdout.write(await completionScript(shell));
  },
});
