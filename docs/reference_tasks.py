"""The index of the reference by task: what a reader wants to do, and the names that do it."""

TASKS = {
    "Environments": {
        "make an environment by name": "eqgrid.make eqgrid.ENVIRONMENTS",
        "step an environment": "eqgrid.AbstractEnv eqgrid.TimeStep",
        "run many copies of an environment": "eqgrid.Vectorize eqgrid.AutoReset",
        "write an environment, and check it": "eqgrid.AbstractEnv eqgrid.check_env",
        "write a wrapper": "eqgrid.AbstractWrapper eqgrid.AbstractVectorWrapper",
        "log the returns of episodes": "eqgrid.LogEpisodes",
        "limit the length of episodes": "eqgrid.TimeLimit",
        "normalise observations or rewards": "eqgrid.NormalizeObservation eqgrid.NormalizeReward",
        "shape a reward, and anneal it": "eqgrid.ShapedReward eqgrid.LinearSchedule",
        "use action masks": "eqgrid.Masked eqgrid.sample_allowed eqgrid.split_mask",
    },
    "Grid worlds": {
        "compose a grid world": "eqgrid.grid.GridWorld eqgrid.grid.Layout eqgrid.grid.Kinds",
        "define actions": "eqgrid.grid.Move eqgrid.grid.Forward eqgrid.grid.Use eqgrid.grid.Say",
        "define what agents do to cells": "eqgrid.grid.AbstractInteraction eqgrid.grid.Interact",
        "let cells change by themselves": "eqgrid.grid.AbstractTick eqgrid.grid.Tick",
        "define events, rewards and endings": "eqgrid.grid.AbstractEvents "
        "eqgrid.grid.AbstractReward eqgrid.grid.AbstractEnding",
        "choose an observation": "eqgrid.grid.Planes eqgrid.grid.Egocentric eqgrid.grid.Features",
        "randomise initial states": "eqgrid.grid.RandomPositions eqgrid.grid.WithProbability",
        "sample a new layout in every episode": "eqgrid.grid.RandomLayouts "
        "eqgrid.grid.AbstractGenerator eqgrid.grid.LayoutPool",
        "draw a state or an episode": "eqgrid.grid.render eqgrid.grid.video "
        "eqgrid.grid.render_episode",
    },
    "Overcooked": {
        "build a kitchen": "eqgrid.Overcooked eqgrid.envs.overcooked.load_layout",
        "generate kitchens": "eqgrid.envs.overcooked.GeneratedKitchens",
        "play with scripted partners": "eqgrid.envs.overcooked.ScriptedCook",
        "read recorded games of people": "eqgrid.envs.overcooked.people.human_games",
        "compute an optimal plan": "eqgrid_exact.JointModel eqgrid_exact.solve eqgrid_exact.trace",
        "compute a best response": "eqgrid_exact.BestResponse eqgrid_exact.respond",
        "convert states of Overcooked-AI": "eqgrid.envs.overcooked.reference.world_from_reference "
        "eqgrid.envs.overcooked.reference.world_to_reference",
    },
    "Partners": {
        "let a partner act for an agent": "eqgrid.WithPartner eqgrid.AbstractPartner",
        "play an episode with one partner per agent": "eqgrid.play eqgrid.record_play",
        "play step by step": "eqgrid.start_play eqgrid.play_step",
        "use a trained policy as a partner": "agents.PolicyPartner agents.PartnerTeam",
    },
    "Training": {
        "train agents in Python": "agents.PPO agents.init_train_state agents.train agents.Block",
        "choose a network": "agents.MLP agents.CNN agents.GRU agents.AbstractNetwork",
        "share parameters between agents, or not": "agents.SharedParameters "
        "agents.IndependentParameters",
        "choose the input of the critic": "agents.LocalObservation agents.JointObservation "
        "agents.GlobalState",
        "write an algorithm": "agents.AbstractAlgorithm agents.AbstractTrainState",
        "continue in another environment": "agents.transfer",
        "clone recorded actions": "agents.BehaviorCloning agents.demonstrations",
        "train on several devices": "agents.device_mesh",
        "write a script with a command line": "eqgrid_lab.Experiment eqgrid_lab.parse "
        "eqgrid_lab.Run eqgrid_lab.Evaluation eqgrid_lab.world_settings",
    },
    "Evaluation and files": {
        "load a policy": "agents.load_policy agents.TrainedPolicy",
        "load a bundled policy": "agents.load_policy",
        "save a policy": "agents.save_policy agents.trained_policy",
        "evaluate a policy": "agents.evaluate agents.Evaluation",
        "record episodes, and store them": "agents.record_episodes agents.save_trajectories "
        "agents.load_trajectories",
        "save and restore a checkpoint": "agents.save agents.restore",
    },
    "Other libraries": {
        "use environments of other libraries": "eqgrid.interop.from_gymnax "
        "eqgrid.interop.from_jaxmarl eqgrid.interop.from_jaxnasium",
        "use eqgrid's environments in other libraries": "eqgrid.interop.to_gymnasium "
        "eqgrid.interop.to_pettingzoo eqgrid.interop.to_jaxmarl eqgrid.interop.to_jaxnasium "
        "eqgrid.interop.to_gymnax",
    },
}
"""For each topic, what a reader wants to do, and the names that do it, with their packages."""
